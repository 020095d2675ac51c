"""Patterns that reach far: all that makes a tensor out of certain blocks, and where such a pattern may have its root.

The readers of a block over a dozen levels are half a program. Those that stand in the right order for a
pattern - a product, cells, a softmax, cells, a product - are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from rewrites.draft import Draft
from rewrites.rule import Above, Op, Rule
from teg.graph import Block

# Blocks that `above` takes at most: a kernel of more is none.
MOST_BLOCKS = 32


def blocks_above(draft: Draft, term: Above, site: str) -> dict[Any, Any] | None:
    """What the term binds for a tensor: itself to the tensor's site, and `(term, n)` to the blocks.

    None where no way leads up to an end, or where there are too many blocks.
    """
    if (term, site) not in draft.memo:
        draft.memo[term, site] = _blocks_above(draft, term, site)
    found: dict[Any, Any] | None = draft.memo[term, site]
    return found


def _blocks_above(draft: Draft, term: Above, site: str) -> dict[Any, Any] | None:
    levels: dict[str, int] = {}
    ends: dict[str, Block] = {}
    edge = {draft.producers[site].site: draft.producers[site]}
    for level in range(term.most + 1):
        further: dict[str, Block] = {}
        for block in edge.values():
            if not draft.is_free(block):
                continue
            if block.operator in term.ends:
                ends[block.site] = block
            elif block.operator in term.operators and level < term.most:
                levels[block.site] = level
                further.update((draft.producers[t].site, draft.producers[t]) for t in block.inputs)
        if len(levels) + len(ends) > MOST_BLOCKS:
            return None
        edge = {s: b for s, b in further.items() if s not in levels and s not in ends}
    if not ends or draft.producers[site].site in ends:
        return None
    kept = dict(ends)
    for s in sorted(levels, key=draft.position):
        block = draft.blocks[s]
        if any(draft.producers[t].site in kept for t in block.inputs):
            kept[s] = block
    return {term: site, **{(term, n): block for n, block in enumerate(kept.values())}}


class Edge(NamedTuple):
    """The way from an operand up to an application: through at most `most` blocks of some operators."""

    parent: Op
    operators: tuple[str, ...]
    most: int


class Shape(NamedTuple):
    """A pattern from below: the edges up from each application, and all edges that can hold a chain."""

    roots: tuple[Op, ...]
    up: dict[Op, tuple[Edge, ...]]
    chains: tuple[Edge, ...]


# A block in a pattern: at an application, or in the chain of an edge with room for so many more.
State = tuple[str, Op | Edge, int]


def roots_above(draft: Draft, rule: Rule, starts: Iterable[str]) -> set[str]:
    """The blocks that may be the rule's first root in a match in which one of these blocks takes part."""
    shape = _shape(rule)
    waiting: list[State] = []
    for site in starts:
        # Anything may have stood here before, also where an operand of the match is made.
        waiting += ((site, term, 0) for term in shape.up)
        waiting += ((site, edge, edge.most - 1) for edge in shape.chains)
        for reader in (r for t in draft.blocks[site].outputs for r, _ in draft.readers[t]):
            waiting += ((reader.site, t, 0) for t in shape.up if t.operator in (None, reader.operator))
            waiting += ((reader.site, e, e.most - 1) for e in shape.chains if reader.operator in e.operators)
    room: dict[tuple[str, Op | Edge], int] = {}
    while waiting:
        site, at, left = waiting.pop()
        if room.get((site, at), -1) >= left:
            continue
        room[site, at] = left
        readers = {r for t in draft.blocks[site].outputs for r, _ in draft.readers[t]}
        waiting += _further(shape, readers, at, left)
    return {site for site, at in room if at is shape.roots[0]}


def _further(shape: Shape, readers: Iterable[Block], at: Op | Edge, left: int) -> Iterator[State]:
    """The states of a block's readers."""
    edges = [(e, e.most) for e in shape.up[at]] if isinstance(at, Op) else [(at, left)]
    for edge, room in edges:
        for reader in readers:
            if edge.parent.operator in (None, reader.operator):
                yield reader.site, edge.parent, 0
            if room and reader.operator in edge.operators:
                yield reader.site, edge, room - 1


@lru_cache(maxsize=256)
def _shape(rule: Rule) -> Shape:
    up: dict[Op, list[Edge]] = {root: [] for root in rule.roots}
    waiting = list(rule.roots)
    while waiting:
        parent = waiting.pop()
        for operand in parent.operands:
            if isinstance(operand, Op):
                below, operators, most = [operand], tuple[str, ...](), 0
            elif isinstance(operand, Above):
                below = [Op(end, (), ()) for end in operand.ends]
                operators, most = operand.operators, operand.most
            else:
                continue
            for child in below:
                if child not in up:
                    up[child] = []
                    waiting.append(child)
                up[child].append(Edge(parent, operators, most))
    edges = dict.fromkeys(e for found in up.values() for e in found if e.most)
    return Shape(rule.roots, {child: tuple(found) for child, found in up.items()}, tuple(edges))
