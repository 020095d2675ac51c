"""The moves of some rules on a graph, in program order: everywhere, or near a change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rewrites.draft import Draft
from rewrites.index import index_of
from rewrites.match import alternatives, in_order
from rewrites.move import SEVERAL, Move
from rewrites.neighbourhood import Changes, Near, near
from rewrites.rule import Rule
from teg.graph import Block, Graph


def find(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """All moves of these rules, in program order of their places.

    Raises:
        RuleError: a guard or the choices of a rule fail; it says which.
    """
    return list(_moves(Draft(graph), rules, graph.blocks))


def find_near(graph: Graph, rules: Sequence[Rule], changes: Changes) -> list[Move]:
    """The moves at places that a rewrite may have affected."""
    draft = Draft(graph)
    affected = near(draft, rules, changes)
    return list(_moves(draft, rules, in_order(draft, affected.places), affected))


def first_root(draft: Draft, move: Move) -> str | None:
    """The block whose site begins the place of a move at one place; None where it is gone."""
    place = move.places[0]
    if place in draft.blocks:
        return place
    ends = (k for k, letter in enumerate(place) if letter == SEVERAL)
    return next((place[:k] for k in ends if place[:k] in draft.blocks), None)


def _moves(
    draft: Draft, rules: Sequence[Rule], blocks: Iterable[Block], affected: Near | None = None
) -> Iterator[Move]:
    index = index_of(tuple(rules))
    for block in blocks:
        for rule in index.rules_at(draft, block):
            if affected is None or affected.concerns(rule, block.site):
                for move, _ in alternatives(draft, rule, block.site):
                    yield move
