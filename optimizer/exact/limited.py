"""Minimization of a pairwise problem under a limit: bounds by multipliers, choices by local search, within a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

import numpy as np

from tapestry.optimizer.exact.blocks import Found, search
from tapestry.optimizer.exact.capped import Capped
from tapestry.optimizer.exact.multipliers import climb
from tapestry.optimizer.exact.reduction import Reduced, reduce
from tapestry.optimizer.exact.trws import ROUNDING

BOUND_SHARE = 0.4  # of the time, until which prices climb before the local search begins
EXACT = 1e-9  # the relative gap at which a choice counts as proven


@dataclass
class Outcome:
    """The best choice found, its cost as the solver adds it up, and a proven bound of every choice's cost."""

    bound: float = -np.inf
    cost: float = np.inf
    labels: list[int] | None = None


@dataclass
class _State:
    """The progress of one minimization, in terms of its reduced problem."""

    reduced: Reduced
    whole: bool  # costs are whole numbers
    bound: float = -np.inf
    best: Found = field(default_factory=lambda: Found(np.zeros(0, np.int64), np.inf))
    nearest: np.ndarray | None = None
    least_over: float = np.inf

    def watch(self, labels: np.ndarray, load: np.ndarray, bound: float) -> float:
        """Note labels met on the way; return the least cost known."""
        over = float((load - self.reduced.loads.capacity).max(initial=0.0))
        if over < self.least_over:
            self.nearest, self.least_over = labels.copy(), over
        if over <= 0:
            cost = self.reduced.problem.energy(labels)
            if cost < self.best.cost:
                self.best = Found(labels.copy(), cost)
        self.raise_bound(bound)
        return self.best.cost

    def raise_bound(self, bound: float) -> None:
        total = bound + self.reduced.constant
        if self.whole and np.isfinite(total):
            total = float(np.ceil(total - ROUNDING * abs(total)))
        self.bound = max(self.bound, total - self.reduced.constant)

    def proven(self) -> bool:
        cost = self.best.cost
        return bool(np.isfinite(cost)) and cost - self.bound <= EXACT * abs(cost + self.reduced.constant)


def minimize(
    problem: Capped, until: float, *, rng: np.random.Generator, clock: Callable[[], float] = monotonic
) -> Outcome:
    """Minimize until the clock shows `until`, or the bound is met.

    Raises:
        NoChoice: no choice of labels is without forbidden costs and within the limit.
    """
    begun = clock()
    reduced = reduce(problem)
    state = _State(reduced, all(_whole(c) for c in (*problem.costs, *problem.tables.values())))
    raised = begun + BOUND_SHARE * (until - begun)
    prices = climb(reduced.problem, reduced.loads, state.watch, lambda: clock() < raised)
    if not state.proven() and state.nearest is not None:

        def report(found: Found) -> None:
            state.best = found

        known = state.best if np.isfinite(state.best.cost) else None
        search(
            reduced.problem,
            reduced.loads,
            state.nearest if known is None else known.labels,
            prices.values,
            lambda: clock() < until and not state.proven(),
            rng=rng,
            known=known,
            reported=report,
        )
    outcome = Outcome(state.bound + reduced.constant)
    if np.isfinite(state.best.cost):
        outcome.cost, outcome.labels = state.best.cost + reduced.constant, reduced.expand(state.best.labels)
    return outcome


def _whole(values: np.ndarray) -> bool:
    finite = values[np.isfinite(values)]
    return bool((finite == np.floor(finite)).all())
