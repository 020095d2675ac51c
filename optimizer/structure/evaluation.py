"""Evaluation of rewritten graphs on one device, and the non-dominated ones among them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tapestry.costmodel.unsharded import UnshardedCost, UnshardedCosts, live_bytes
from tapestry.optimizer.archive.dominance import Front
from tapestry.rewrites import Changes, Move, Rule, Saturated, Worklist
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS

# How much slower than the best so far, for its memory, a graph may be to be rewritten further.
ALLOWANCE = 1.05

# How many times slower than the program that everything is made of nobody wants it, however small it is.
SLOWEST = 100

# What a move makes of a graph, with all that was done to it; None where it leads nowhere.
Rewrite = Callable[[Graph, Move], Saturated | None]


@dataclass(frozen=True, eq=False)
class EvaluatedGraph:
    """An evaluated graph: the moves that lead to it, and its cost on one device in this schedule order of its blocks.

    `live` are the bytes that live while its blocks work, most first. `origin` are the candidate moves of the graph
    that it was derived from; `changes` distinguishes its own from those.
    """

    graph: Graph
    moves: tuple[Move, ...]
    cost: UnshardedCost
    live: tuple[int, ...]
    order: str = SCHEDULE_ORDERS[0]
    origin: Worklist | None = None
    changes: Changes | None = None

    def candidates(self, rules: Sequence[Rule]) -> Worklist:
        """Return all candidate moves of this graph."""
        if self.origin is None or self.changes is None:
            return Worklist.of(self.graph, rules)
        return self.origin.after(self.graph, self.changes)


class Evaluator:
    """An evaluator that rewrites graphs and keeps the non-dominated `front` in time and memory.

    At most `most` graphs are evaluated, none when `time.perf_counter()` is past `until_s`. `waiting` are those that
    may be worth rewriting further. Of the schedule orders, each graph has the one in which it needs
    the least memory.
    """

    def __init__(
        self, costs: UnshardedCosts, rules: Sequence[Rule], rewrite: Rewrite, most: int, orders: Sequence[str]
    ) -> None:
        self.costs, self.rules, self.rewrite = costs, tuple(rules), rewrite
        self.most, self.orders, self.until_s = most, tuple(orders), math.inf
        self.evaluated = 0
        self.front: Front[EvaluatedGraph] = Front()
        self.waiting: list[EvaluatedGraph] = []
        self._seen: set[tuple[UnshardedCost, int]] = set()
        self._longest = 0

    @property
    def has_more(self) -> bool:
        """True if another graph may be evaluated."""
        return self.evaluated < self.most and time.perf_counter() < self.until_s

    def start(self, graph: Graph, moves: tuple[Move, ...]) -> EvaluatedGraph:
        """Evaluate the graph that all others are derived from."""
        start = self._evaluated(graph, moves, None, None, self.costs.time_ticks(graph))
        self._longest = SLOWEST * max(1, start.cost.time_ticks)
        return self._kept(start)

    def rewritten(self, graph: Graph, move: Move) -> Saturated | None:
        """Apply a move to a graph and count the evaluation; None where the move fails or the limit is reached."""
        made = self.rewrite(graph, move) if self.has_more else None
        self.evaluated += made is not None
        return made

    def evaluator(self, parent: EvaluatedGraph, move: Move, candidates: Worklist) -> EvaluatedGraph | None:
        """Evaluate the result of a move, if it fits and is new; add it to front and queue if it belongs there."""
        return self._child(parent, move, candidates, None)

    def evaluate_further(self, child: EvaluatedGraph, move: Move) -> EvaluatedGraph | None:
        """Apply another move of a child's origin to the child, and evaluate the result as `evaluator` does."""
        return None if child.origin is None else self._child(child, move, child.origin, child.changes)

    def _child(
        self, parent: EvaluatedGraph, move: Move, origin: Worklist, before: Changes | None
    ) -> EvaluatedGraph | None:
        """Apply a move to a graph derived from `origin` by `before`, and evaluate the result; None unless it is new."""
        made = self.rewritten(parent.graph, move)
        if made is None:
            return None
        known = len(self._seen)
        changes = made.changes if before is None else before | made.changes
        child = self.kept(made.graph, (*parent.moves, *made.moves), origin, changes)
        return child if len(self._seen) > known else None

    def kept(
        self, graph: Graph, moves: tuple[Move, ...], origin: Worklist, changes: Changes
    ) -> EvaluatedGraph | None:
        """Evaluate a rewritten graph; where it is new, add it to the front and the queue if it belongs there.

        Returns None where it is slower than the limit.
        """
        try:
            time_ticks = self.costs.time_ticks(graph)
        except ValueError:  # longer than any clock counts
            return None
        if time_ticks > self._longest:
            return None
        child = self._evaluated(graph, moves, origin, changes, time_ticks)
        return child if _fingerprint(child) in self._seen else self._kept(child)

    def _evaluated(
        self,
        graph: Graph,
        moves: tuple[Move, ...],
        origin: Worklist | None,
        changes: Changes | None,
        time_ticks: int,
    ) -> EvaluatedGraph:
        lives = {order: live_bytes(graph, order) for order in self.orders}
        order = min(lives, key=lambda o: max(lives[o]))
        live = tuple(sorted(lives[order], reverse=True))
        return EvaluatedGraph(graph, moves, UnshardedCost(time_ticks, live[0]), live, order, origin, changes)

    def _kept(self, child: EvaluatedGraph) -> EvaluatedGraph:
        self._seen.add(_fingerprint(child))
        self.front.add(child, child.cost)
        if self.is_promising(child):
            self.waiting.append(child)
        return child

    def is_promising(self, evaluated_graph: EvaluatedGraph) -> bool:
        """Return whether no graph of the front takes as little memory and is faster by more than the allowance."""
        return not any(
            other.cost.time_ticks * ALLOWANCE < evaluated_graph.cost.time_ticks
            and other.cost.peak_memory_bytes <= evaluated_graph.cost.peak_memory_bytes
            for other in self.front
        )


def _fingerprint(evaluated_graph: EvaluatedGraph) -> tuple[UnshardedCost, int]:
    """Return a key that is equal for graphs of the same cost and the same definitions: one of them is enough."""
    counts: dict[Definition, int] = {}
    for block in evaluated_graph.graph.blocks:
        counts[block.definition] = counts.get(block.definition, 0) + 1
    return evaluated_graph.cost, hash(frozenset(counts.items()))
