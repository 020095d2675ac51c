"""Evaluation of rewritten graphs on one device, and the non-dominated ones among them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import le

from tapestry.costmodel.tally import CostTally
from tapestry.costmodel.unsharded import BlockSums, UnshardedCosts, live_bytes
from tapestry.optimizer.archive.dominance import Front
from tapestry.optimizer.structure.criteria import Criteria
from tapestry.rewrites import Changes, Move, Rule, Saturated, Worklist
from tapestry.teg.graph import Definition, Graph
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tapestry.teg.stopping import CheckStop, never_stop

# How much worse than the best so far by the leading criterion, with the others equal, a graph may be to be rewritten
# further: the first factor until nothing promising is left, then the next one.
ALLOWANCES = (1.05, 1.5, 4.0, math.inf)

# How many times slower than the program that everything is made of nobody wants it, however small it is.
SLOWEST = 100

# What a move makes of a graph, with all that was done to it; None where it leads nowhere.
Rewrite = Callable[[Graph, Move], Saturated | None]


@dataclass(frozen=True, eq=False)
class EvaluatedGraph:
    """An evaluated graph: the moves that lead to it, and its cost on one device in this schedule order of its blocks.

    `values` are the criteria that it is compared by, `violation` is by how much it breaks bounds; a descent by all of
    them together lowers `score`. `live` are the bytes that live while its blocks work, most first. `origin` are the
    candidate moves of the graph that it was derived from; `changes` distinguishes its own from those.
    """

    graph: Graph
    moves: tuple[Move, ...]
    cost: CostTally
    values: tuple[float, ...]
    violation: float
    score: float
    live: tuple[int, ...]
    schedule_order: str = SCHEDULE_ORDERS[0]
    origin: Worklist | None = None
    changes: Changes | None = None

    @property
    def ranks(self) -> tuple[float, ...]:
        """The numbers of which none may be worse: the criteria, and by how much bounds are broken."""
        return (*self.values, self.violation)

    def candidates(self, rules: Sequence[Rule]) -> Worklist:
        """Return all candidate moves of this graph."""
        if self.origin is None or self.changes is None:
            return Worklist.of(self.graph, rules)
        return self.origin.after(self.graph, self.changes)


class Evaluator:
    """An evaluator that rewrites graphs and keeps the non-dominated `front` by all criteria.

    At most `most` graphs are evaluated, none when `time.perf_counter()` is past `until_s`; `check_stop` is called
    before each. `waiting` are those that may be worth rewriting further, `put_off` those that would be by one of the
    next `allowances`. Of the schedule orders, each graph has the one in which it needs the least memory.
    """

    def __init__(
        self,
        criteria: Criteria,
        rules: Sequence[Rule],
        rewrite: Rewrite,
        most: int,
        schedule_orders: Sequence[str],
        compute_dtype: str | None = None,
    ) -> None:
        self.criteria, self.rules, self.rewrite = criteria, tuple(rules), rewrite
        self.costs = UnshardedCosts(criteria.device, compute_dtype, criteria.resources)
        self.most, self.schedule_orders, self.until_s = most, tuple(schedule_orders), math.inf
        self.check_stop: CheckStop = never_stop
        self.evaluated = 0
        self.front: Front[EvaluatedGraph] = Front()
        self.waiting: list[EvaluatedGraph] = []
        self.put_off: list[EvaluatedGraph] = []
        self.allowances = list(ALLOWANCES)
        self._seen: set[tuple[int, int, int]] = set()
        self._longest = 0

    @property
    def has_more(self) -> bool:
        """True if another graph may be evaluated."""
        return self.evaluated < self.most and time.perf_counter() < self.until_s

    def start(self, graph: Graph, moves: tuple[Move, ...]) -> EvaluatedGraph:
        """Evaluate the graph that all others are derived from."""
        start = self._evaluated(graph, moves, None, None, self.costs.sums(graph))
        self._longest = SLOWEST * max(1, start.cost.time_ticks)
        return self._kept(start)

    def rewritten(self, graph: Graph, move: Move) -> Saturated | None:
        """Apply a move to a graph and count the evaluation; None where the move fails or the limit is reached."""
        self.check_stop()
        made = self.rewrite(graph, move) if self.has_more else None
        self.evaluated += made is not None
        return made

    def evaluate(self, parent: EvaluatedGraph, move: Move, candidates: Worklist) -> EvaluatedGraph | None:
        """Evaluate the result of a move, if it fits and is new; add it to front and queue if it belongs there."""
        return self._child(parent, move, candidates, None)

    def evaluate_further(self, child: EvaluatedGraph, move: Move) -> EvaluatedGraph | None:
        """Apply another move of a child's origin to the child, and evaluate the result as `evaluate` does."""
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
            sums = self.costs.sums(graph)
        except ValueError:  # longer than any clock counts
            return None
        if sums.time_ticks > self._longest:
            return None
        child = self._evaluated(graph, moves, origin, changes, sums)
        return child if _fingerprint(child) in self._seen else self._kept(child)

    def _evaluated(
        self,
        graph: Graph,
        moves: tuple[Move, ...],
        origin: Worklist | None,
        changes: Changes | None,
        sums: BlockSums,
    ) -> EvaluatedGraph:
        lives = {name: live_bytes(graph, name) for name in self.schedule_orders}
        schedule_order = min(lives, key=lambda name: max(lives[name]))
        live = tuple(sorted(lives[schedule_order], reverse=True))
        cost = self.costs.tally(graph, sums, live[0])
        return EvaluatedGraph(
            graph, moves, cost, *self.criteria.measure(cost), live, schedule_order, origin, changes
        )

    def _kept(self, child: EvaluatedGraph) -> EvaluatedGraph:
        self._seen.add(_fingerprint(child))
        self.front.add(child, child.ranks)
        (self.waiting if self.is_promising(child) else self.put_off).append(child)
        return child

    def widen(self) -> bool:
        """Allow graphs to be worse than the best by the next factor; return False where there is none."""
        if len(self.allowances) > 1:
            del self.allowances[0]
            again, self.put_off = [*self.waiting, *self.put_off], []
            self.waiting = []
            for each in again:
                (self.waiting if self.is_promising(each) else self.put_off).append(each)
            return True
        return False

    def is_promising(self, evaluated_graph: EvaluatedGraph) -> bool:
        """Return whether no graph of the front is as good by all criteria, and much better by the leading one."""
        leading, *others = evaluated_graph.ranks
        return not any(
            other.values[0] * self.allowances[0] < leading and all(map(le, other.ranks[1:], others))
            for other in self.front
        )


def _fingerprint(evaluated_graph: EvaluatedGraph) -> tuple[int, int, int]:
    """Return a key that is equal for graphs of the same cost and the same definitions: one of them is enough."""
    counts: dict[Definition, int] = {}
    for block in evaluated_graph.graph.blocks:
        counts[block.definition] = counts.get(block.definition, 0) + 1
    cost = evaluated_graph.cost
    return cost.time_ticks, cost.peak_memory_bytes, hash(frozenset(counts.items()))
