"""The moves of some rules on a graph, in program order."""

from __future__ import annotations

from collections.abc import Sequence

from rewrites.draft import Draft
from rewrites.index import index_of
from rewrites.match import alternatives
from rewrites.move import SEVERAL, Move
from rewrites.rule import Rule
from rewrites.sight import Sight
from teg.graph import Graph


def find(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """All moves of these rules, in program order of their places.

    Raises:
        RuleError: the left side, the guard or the choices of a rule fail; it says which.
    """
    index, sight = index_of(tuple(rules)), Sight(graph)
    found = [
        move
        for block in graph.blocks
        for rule in index.rules_at(graph, block)
        for move, _ in alternatives(sight, rule, block.site)
    ]
    index.check()
    return found


def first_root(draft: Draft, move: Move) -> str | None:
    """The block whose site begins the place of a move at one place; None where it is gone."""
    place = move.places[0]
    if place in draft.blocks:
        return place
    ends = (k for k, letter in enumerate(place) if letter == SEVERAL)
    return next((place[:k] for k in ends if place[:k] in draft.blocks), None)
