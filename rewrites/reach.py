"""Where a deep pattern may have its root, seen from a block inside it: up along the pattern, not along all readers.

The readers of a block over a dozen levels are half a program. Those that stand in the right order for a
pattern - a product, cells, a softmax, cells, a product - are few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from rewrites.draft import Draft
from rewrites.rule import Either, Op, Rule, Term, Through
from teg.graph import Block


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
    seen = set(waiting)
    while waiting:
        site, at, left = waiting.pop()
        readers = {r for t in draft.blocks[site].outputs for r, _ in draft.readers[t]}
        further = set(_further(shape, readers, at, left)) - seen
        seen |= further
        waiting += further
    return {site for site, at, _ in seen if at is shape.roots[0]}


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
            for child, operators, most in _below(operand, (), 0):
                if child not in up:
                    up[child] = []
                    waiting.append(child)
                edge = Edge(parent, operators, most)
                if edge not in up[child]:
                    up[child].append(edge)
    edges = dict.fromkeys(e for found in up.values() for e in found if e.most)
    return Shape(rule.roots, {child: tuple(found) for child, found in up.items()}, tuple(edges))


def _below(term: Term, operators: tuple[str, ...], most: int) -> Iterator[tuple[Op, tuple[str, ...], int]]:
    """The applications that an operand may be, and the longest chain before each."""
    if isinstance(term, Op):
        yield term, operators, most
    elif isinstance(term, Through):
        yield from _below(term.term, (*operators, *term.operators), most + term.most)
    elif isinstance(term, Either):
        for one in term.terms:
            yield from _below(one, operators, most)
