"""The moves of some rules on a graph, in program order."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.rewrites.index import index_of
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.move import SEVERAL, Move
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.rule import Rule
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Graph


def find(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """Find all moves of these rules, in program order of their places.

    Raises:
        RuleError: the left side, the guard or the choices of a rule fail; it says which.
    """
    index, tracked = index_of(tuple(rules)), TrackedGraph(graph)
    found = [
        move
        for block in graph.blocks
        for rule in index.rules_at(graph, block)
        for move, _ in alternatives(tracked, rule, block.site)
    ]
    index.check()
    return found


def first_root(edited: MutableGraph, move: Move) -> str | None:
    """Find the block whose site begins the place of a move at one place; None if it no longer exists."""
    place = move.places[0]
    if place in edited.blocks:
        return place
    ends = (k for k, letter in enumerate(place) if letter == SEVERAL)
    return next((place[:k] for k in ends if place[:k] in edited.blocks), None)
