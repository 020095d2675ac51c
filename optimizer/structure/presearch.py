"""Presearch: many graphs rewritten ahead of compilation and evaluated on one device, the best of them passed on.

Where a mesh has one device there is nothing to place: a program's time is the sum of its blocks' times, its
memory that of its live tensors, and a rewritten graph is evaluated in about the time that rewriting it took. The
search is best first over whole graphs, as in TASO (Jia et al., SOSP 2019, section 5: a graph that is worse by less
than a factor is followed too). Here the factor grows once nothing is left, for what needs several moves of which the
first ones make things worse; and best is by all criteria of the run (`criteria.py`): in turn by the leading one, by
all together, and by each of the others; for time and memory: by time, by both, and by memory. A rule that helps
is applied repeatedly by itself as long as it does, so that a law that pays after several applications (the third of
three products that are merged) is not lost to another one that pays at once. At the end the front's programs are
refined at one place after the other, see `rematerialization.py`: until then moves of equal layers go together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any

from tapestry.optimizer.structure.criteria import Criteria
from tapestry.optimizer.structure.evaluation import EvaluatedGraph, Evaluator, Rewrite
from tapestry.optimizer.structure.rematerialization import Rematerialization
from tapestry.rewrites import Move, Rule
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tapestry.teg.stopping import CheckStop, never_stop

# Rewritten graphs that a presearch may evaluate: so many blocks in all, at least and at most so many graphs.
BLOCKS, FEWEST, MOST = 300_000, 64, 4096

# Expansions in a row that may add nothing to the front before worse graphs are expanded too, or a presearch ends; and
# the share of the evaluations up to which they are.
QUIET, WIDENED = 4, 0.25

Key = Callable[[EvaluatedGraph], Any]


def orders_of(criteria: Criteria) -> tuple[Key, ...]:
    """Build the orders in which a presearch expands graphs, each by a key of which less is better."""
    leading, *others = [_order_by(k, is_memory) for k, is_memory in enumerate(criteria.is_memory)]
    together: tuple[Key, ...] = (attrgetter("score"),) if others or criteria.has_bounds else ()
    return (leading, *together, *others)


def _order_by(k: int, is_memory: bool) -> Key:
    """Build the order by criterion `k`.

    By memory it counts where the program needs the most, then where it needs the second most, and so on: of equal
    layers all must be improved before the peak is.
    """
    if is_memory:
        return lambda s: (s.live, s.cost.time_ticks)
    return lambda s: s.values[k]


class Presearch:
    """A search over rewritten graphs.

    `rewrite` applies a move. At most `limit` graphs are evaluated, and no more than a share `effort` of the number
    appropriate to the program's size. `schedule_orders` are those in which a program may run. Contractions are
    computed in `compute_dtype`, by default the program's.
    """

    def __init__(
        self,
        graph: Graph,
        moves: tuple[Move, ...],
        criteria: Criteria,
        rules: Sequence[Rule],
        rewrite: Rewrite,
        limit: int | None = None,
        effort: float = 1.0,
        schedule_orders: Sequence[str] = SCHEDULE_ORDERS[:1],
        compute_dtype: str | None = None,
    ) -> None:
        most = min(MOST, max(FEWEST, int(effort * BLOCKS) // max(1, len(graph.blocks))))
        self.most = most if limit is None else min(most, limit)
        self.orders = orders_of(criteria)
        self.evaluator = Evaluator(criteria, rules, rewrite, self.most, schedule_orders, compute_dtype)
        self.evaluator.start(graph, moves)

    @property
    def evaluated(self) -> int:
        """The number of rewritten graphs that were built."""
        return self.evaluator.evaluated

    def run(self, until_s: float = math.inf, check_stop: CheckStop = never_stop) -> list[EvaluatedGraph]:
        """Return the non-dominated graphs by all criteria, best by the leading one first.

        Where one of them keeps all bounds, only such graphs are returned.
        The search stops when nothing promising is left, nothing new is found, the limit is reached, or
        `time.perf_counter()` passes `until_s`. `check_stop` is called before each graph; what it raises ends
        the search.
        """
        evaluator = self.evaluator
        evaluator.until_s, evaluator.check_stop = until_s, check_stop
        # The start comes first in any order; where many orders take turns, the leading one's is not spent on it.
        quiet, turn = 0, -1 if len(self.orders) > 3 else 0
        while evaluator.has_more:
            if not evaluator.waiting or quiet >= QUIET:
                if evaluator.evaluated > max(WIDENED * self.most, FEWEST) or not evaluator.widen():
                    break
                quiet = 0
                continue
            order = self.orders[turn % len(self.orders)]
            best = min(evaluator.waiting, key=order)
            evaluator.waiting.remove(best)
            if evaluator.is_promising(best):
                turn += 1
                quiet = 0 if self._expand(best) else quiet + 1
            else:
                evaluator.put_off.append(best)
        Rematerialization(evaluator).run()
        least = min(s.violation for s in evaluator.front)
        found = (s for s in evaluator.front if least > 0 or s.violation == 0)
        return sorted(found, key=attrgetter("values"))

    def _expand(self, parent: EvaluatedGraph) -> bool:
        """Evaluate all single moves of a graph, combine those that help, and apply their rules repeatedly.

        Returns True if the front improved.
        """
        before = list(self.evaluator.front)
        candidates = parent.candidates(self.evaluator.rules)
        made = [(move, self.evaluator.evaluate(parent, move, candidates)) for move in candidates.tied()]
        for order in self.orders:
            helping = [(m, c) for m, c in made if c is not None and order(c) < order(parent)]
            rejected = {m for m, c in made if c is None or order(c) >= order(parent)}
            helping.sort(key=lambda found: order(found[1]))
            best: dict[str, EvaluatedGraph] = {}
            for move, child in helping:
                best.setdefault(move.rule, child)
            joined = self._joined(helping, order)
            for rule, child in best.items():
                self._pursue(child if joined is None else joined, rule, order, rejected)
        return list(self.evaluator.front) != before

    def _joined(self, helping: Sequence[tuple[Move, EvaluatedGraph]], order: Key) -> EvaluatedGraph | None:
        """Apply the moves that help one after the other, best first, as long as they do; None where only one does."""
        if len(helping) < 2:
            return None
        first = current = helping[0][1]
        for move, _ in helping[1:]:
            further = self.evaluator.evaluate_further(current, move)
            if further is not None and order(further) < order(current):
                current = further
        return None if current is first else current

    def _pursue(self, start: EvaluatedGraph, rule: str, order: Key, rejected: AbstractSet[Move]) -> None:
        """Apply one rule repeatedly as long as it helps; moves that did not help once are not tried again."""
        tried = set(rejected)
        while True:
            candidates = start.candidates(self.evaluator.rules)
            best = start
            for move in candidates.tied():
                if move.rule != rule or move in tried:
                    continue
                child = self.evaluator.evaluate(start, move, candidates)
                if child is None or order(child) >= order(start):
                    tried.add(move)
                elif order(child) < order(best):
                    best = child
            if best is start:
                return
            start = best
