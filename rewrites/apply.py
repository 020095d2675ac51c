"""Application of moves, one after the other; each is identified by its rule, place and choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from tapestry.rewrites.application import Applied, Rules, apply_with_rules
from tapestry.rewrites.move import Move
from tapestry.rewrites.rules import catalog
from tapestry.teg.graph import Graph


def apply_move(graph: Graph, move: Move, rules: Rules | None = None) -> Graph:
    """Apply a move and return the new graph. O(neighborhood), and one copy of the graph's tables.

    Raises:
        StaleMove: the move does not fit the graph.
        RuleError: the rule's right side does not fit its left side here.
    """
    return apply_all(graph, [move], rules).graph


def apply_all(graph: Graph, moves: Iterable[Move], rules: Rules | None = None) -> Applied:
    """Apply several moves, one after the other, in one copy; by the catalog's rules unless specified.

    Raises:
        StaleMove: a move does not fit, because of the graph or of a move before it.
        RuleError: as for `apply_move`.
    """
    return apply_with_rules(graph, moves, catalog() if rules is None else rules)


def replay(graph: Graph, moves: Iterable[Move], rules: Rules | None = None) -> Graph:
    """Return the graph that a history of moves leads to.

    Raises:
        StaleMove, RuleError: as for `apply_all`.
    """
    return apply_all(graph, moves, rules).graph


History = tuple[Move, ...]


def replay_all(
    graph: Graph, histories: Iterable[History], rules: Rules | None = None
) -> dict[History, Graph]:
    """Return the graphs that several histories of one graph lead to; moves that they begin with are applied once.

    Equal histories have the same graph object.

    Raises:
        StaleMove, RuleError: as for `apply_all`.
    """
    found: dict[History, Graph] = {}

    def follow(reached: Graph, group: Sequence[History], done: int) -> None:
        first = group[0]
        alike = takewhile(lambda moves: all(move == moves[0] for move in moves), zip(*group, strict=False))
        shared = sum(1 for _ in alike)
        reached = replay(reached, first[done:shared], rules) if shared > done else reached
        branches: dict[Move, list[History]] = {}
        for history in group:
            if len(history) == shared:
                found[history] = reached
            else:
                branches.setdefault(history[shared], []).append(history)
        for branch in branches.values():
            follow(reached, branch, shared)

    if distinct := list(dict.fromkeys(histories)):
        follow(graph, distinct, 0)
    return found
