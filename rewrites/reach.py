"""Patterns that reach far: all that makes a tensor out of certain blocks, and where such a pattern may have its root.

The readers of a block over a dozen levels are half a program. Those that stand in the right order for a
pattern - a product, cells, a softmax, cells, a product - are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from rewrites.draft import Draft
from rewrites.regions import Above
from rewrites.rule import Op, Rule
from teg.graph import Block

# Blocks that `above` takes at most: a kernel of more is none.
MOST_BLOCKS = 24

# How far below its ends a match takes in what only it reads.
MOST_PRIVATE = 2


def blocks_above(
    draft: Draft, term: Above, sites: Sequence[str], matched: Sequence[Block]
) -> dict[Any, Any] | None:
    """What the term binds for tensors: itself to their sites, and `(term, n)` to the blocks.

    `matched` are the blocks matched so far, the root first. None where no way leads up to an end, or where
    there are too many blocks.
    """
    key = (term, tuple(sites), matched[0].site if term.all_operands else "")
    if key not in draft.memo:
        draft.memo[key] = _blocks_above(draft, term, sites, matched)
    found: dict[Any, Any] | None = draft.memo[key]
    return found


def _blocks_above(
    draft: Draft, term: Above, sites: Sequence[str], matched: Sequence[Block]
) -> dict[Any, Any] | None:
    levels: dict[str, Block] = {}
    ends: dict[str, Block] = {}
    edge = {draft.producers[t].site: draft.producers[t] for t in sites}
    if not term.all_operands and any(b.operator in term.ends for b in edge.values()):
        return None
    for level in range(term.most + 1):
        further: dict[str, Block] = {}
        for block in edge.values():
            if not draft.is_free(block) or (term.takes and not term.takes(draft, block, matched[0])):
                continue
            if block.operator in term.ends:
                ends[block.site] = block
            if block.operator in term.operators and level < term.most:
                levels[block.site] = block
                further.update((draft.producers[t].site, draft.producers[t]) for t in block.inputs)
        if len(levels.keys() | ends.keys()) > MOST_BLOCKS:
            return None
        edge = {s: b for s, b in further.items() if s not in levels and s not in ends}
    if not ends:
        return None
    kept = dict(ends)
    for s in sorted(levels, key=draft.position):
        if any(draft.producers[t].site in kept for t in levels[s].inputs):
            kept[s] = levels[s]
    if term.through is not None and not any(map(term.through, kept.values())):
        return None
    if term.private:
        _take_private(draft, term, kept, matched)
    bound = tuple(sites) if term.all_operands else sites[0]
    return {term: bound, **{(term, n): block for n, block in enumerate(kept.values())}}


def _take_private(draft: Draft, term: Above, kept: dict[str, Block], matched: Sequence[Block]) -> None:
    """Take in what only matched blocks read, block by block upwards."""
    inside = {b.site for b in matched} | kept.keys()
    waiting = [(b, 0) for b in (*matched, *kept.values())]
    while waiting and len(kept) < MOST_BLOCKS:
        block, steps = waiting.pop()
        for maker in dict.fromkeys(draft.producers[t] for t in block.inputs) if steps < MOST_PRIVATE else ():
            if maker.site in inside or maker.operator not in term.private or not draft.is_free(maker):
                continue
            if all(r.site in inside for t in maker.outputs for r, _ in draft.readers[t]):
                kept[maker.site] = maker
                inside.add(maker.site)
                waiting.append((maker, steps + 1))


class Edge(NamedTuple):
    """The way from an operand up to an application: through at most `most` blocks of some operators, one of which is
    of a kind (`through`)."""

    parent: Op
    operators: tuple[str, ...]
    most: int
    through: Callable[[Block], bool] | None = None


class Shape(NamedTuple):
    """A pattern from below: the edges up from each application, and all edges that can hold a chain."""

    roots: tuple[Op, ...]
    up: dict[Op, tuple[Edge, ...]]
    chains: tuple[Edge, ...]


# A block in a pattern: at an application, or in the chain of an edge with room for so many more; and whether the
# kind of block that the edge goes through stands there or further down.
State = tuple[str, Op | Edge, int, bool]


def roots_above(draft: Draft, rule: Rule, starts: Iterable[str]) -> set[str]:
    """The blocks that may be the rule's first root in a match in which one of these blocks takes part."""
    shape = _shape(rule)
    waiting: list[State] = []
    # What makes an operand of a match counts as well, so the readers of these blocks are looked at too.
    blocks = {draft.blocks[site] for site in starts}
    blocks |= {r for b in blocks for t in b.outputs for r, _ in draft.readers[t]}
    for block in blocks:
        waiting += ((block.site, t, 0, False) for t in shape.up if t.operator in (None, block.operator))
        waiting += (
            (block.site, e, e.most - 1, _is_below(draft, e, block))
            for e in shape.chains
            if block.operator in e.operators
        )
    room: dict[tuple[str, Op | Edge, bool], int] = {}
    while waiting:
        site, at, left, passed = waiting.pop()
        if room.get((site, at, passed), -1) >= left:
            continue
        room[site, at, passed] = left
        readers = {r for t in draft.blocks[site].outputs for r, _ in draft.readers[t]}
        waiting += _further(shape, readers, at, left, passed)
    return {site for site, at, _ in room if at is shape.roots[0]}


def _further(
    shape: Shape, readers: Iterable[Block], at: Op | Edge, left: int, passed: bool
) -> Iterator[State]:
    """The states of a block's readers."""
    edges = (
        [(e, e.most, e.through is None) for e in shape.up[at]] if isinstance(at, Op) else [(at, left, passed)]
    )
    for edge, room, is_done in edges:
        for reader in readers:
            if is_done and edge.parent.operator in (None, reader.operator):
                yield reader.site, edge.parent, 0, False
            if room and reader.operator in edge.operators:
                yield reader.site, edge, room - 1, is_done or bool(edge.through and edge.through(reader))


def _is_below(draft: Draft, edge: Edge, block: Block) -> bool:
    """Whether a block in the chain of an edge, or one on the way down from it, is of the kind that is asked for."""
    if edge.through is None or edge.through(block):
        return True
    level, seen = [block], {block.site}
    for _ in range(edge.most):
        makers = {draft.producers[t] for b in level for t in b.inputs}
        level = [b for b in makers if b.operator in edge.operators and b.site not in seen]
        if any(map(edge.through, level)):
            return True
        seen.update(b.site for b in level)
    return False


@lru_cache(maxsize=256)
def skeleton(rule: Rule) -> Any:
    """What `roots_above` depends on: patterns of one skeleton may have their roots at the same blocks."""
    return tuple(_bones(root) for root in rule.roots)


def _bones(term: Any) -> Any:
    if isinstance(term, Op):
        return term.operator, tuple(_bones(o) for o in term.operands)
    if isinstance(term, Above):
        return term.operators, term.ends, term.most, term.private, term.through
    return None


@lru_cache(maxsize=256)
def _shape(rule: Rule) -> Shape:
    up: dict[Op, list[Edge]] = {root: [] for root in rule.roots}
    waiting = list(rule.roots)
    while waiting:
        parent = waiting.pop()
        for operand in parent.operands:
            through = None
            if isinstance(operand, Op):
                below, operators, most = [operand], tuple[str, ...](), 0
            elif isinstance(operand, Above):
                below = [Op(end, (), ()) for end in operand.ends]
                # What is private to the match may lie below its ends.
                below += [Op(name, (), ()) for name in operand.private]
                operators = (*operand.operators, *(operand.ends if operand.private else ()))
                most = operand.most + (MOST_PRIVATE if operand.private else 0)
                through = operand.through
            else:
                continue
            for child in below:
                if child not in up:
                    up[child] = []
                    waiting.append(child)
                up[child].append(Edge(parent, operators, most, through))
    edges = dict.fromkeys(e for found in up.values() for e in found if e.most)
    return Shape(rule.roots, {child: tuple(found) for child, found in up.items()}, tuple(edges))
