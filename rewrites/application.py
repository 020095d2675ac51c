"""Application of moves by specified rules: what `rewrites.apply` does, without the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from tapestry.rewrites.finding import first_root
from tapestry.rewrites.match import alternatives
from tapestry.rewrites.move import Move, StaleMove
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.neighborhood import Changes, changes_of
from tapestry.rewrites.replacement import apply_match
from tapestry.rewrites.rule import Match, Rule
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Graph

Rules = Mapping[str, Rule]


class Applied(NamedTuple):
    """The rewritten graph, and its changes, for `Worklist.after`."""

    graph: Graph
    changes: Changes


def apply_with_rules(graph: Graph, moves: Iterable[Move], rules: Rules) -> Applied:
    """Apply several moves, one after the other, in one copy of the graph.

    Raises:
        StaleMove: a move does not fit, because of the graph or of a move before it.
        RuleError: a rule's right side does not fit its left side here.
    """
    edited = MutableGraph(graph)
    for move in moves:
        for part in move.single():
            apply_match(edited, *resolve(edited, part, rules))
    changes = changes_of(edited)
    return Applied(edited.graph(), changes)


def resolve(edited: MutableGraph, move: Move, rules: Rules) -> tuple[Rule, Match, Move]:
    """Find the rule, match and single move that a move names.

    Raises:
        StaleMove: there is no such rule, place, match or choice.
    """
    if move.rule not in rules:
        raise StaleMove(move, f"there is no rule {move.rule!r}")
    root = first_root(edited, move)
    if root is None:
        raise StaleMove(move, f"there is no block {move.place!r}")
    offered = []
    for other, match in alternatives(TrackedGraph(edited), rules[move.rule], root):
        if other == move:
            return rules[move.rule], match, move
        further = rules[move.rule].further
        if further is not None and further(match, move.choice):
            return rules[move.rule], replace(match, choice=move.choice), move
        offered.append(other)
    if not offered:
        operator = edited.blocks[root].operator
        raise StaleMove(move, f"the rule does not fit the {operator!r} block there, or its guard forbids it")
    raise StaleMove(move, f"what there is: {'; '.join(map(str, offered))}")
