"""Exact plans of a space: of least weighted cost, for weights that spread over the objectives of a goal.

Decoded plans are costed in full, in several distances of prefetch. They are points near the convex hull of the
frontier; what lies between them, and what overlap and lifetimes change, is left to the search.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import (
    ENERGY,
    FLOPS,
    FLOPS_WASTE,
    MEMORY_WASTE,
    PEAK,
    PEAK_FLOPS,
    TIME,
    TOTAL,
    TRAFFIC,
    CompiledSpace,
    EvaluationState,
)
from tapestry.optimizer.archive.fronts import spread_points
from tapestry.optimizer.archive.goal import Goal, objective_values
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.trws import Messages, new_messages, solve

PREFETCHES = (0, 1, 2, 4)  # of all edges
SCALARIZATIONS = 24  # beside two for each objective
STEEPEST = 4.0  # weights of two objectives differ by at most this power of ten, per range
NUDGE = 1e-3  # the weight of all objectives where one is minimized
PROBE = 1e-3  # the relative step of a difference quotient
LIVE, LEAST_LIVE = 0.05, 1e-4  # the share of what blocks make that is live at the peak, before a plan says it
STILL = 1e-6  # a relative difference of an objective that counts as none
PASSES, CLOSE = 10, 1e-3  # of a solution: what is left is the search's
WORK = 2e8  # entries of tables that the passes of all solutions may read, a fraction of a second
FEWEST = 3  # solutions of any space
# Of a bound that the fastest plan breaks: multipliers tried for each objective, and the powers of ten between which.
MULTIPLIERS, LEAST_MULTIPLIER, MOST_MULTIPLIER = 8, -3.0, 3.0


class ExactPlan(NamedTuple):
    """A plan as strategies `(genes,)`, and the distance of all its prefetches."""

    strategies: np.ndarray
    prefetch: int


class _Limit(NamedTuple):
    """A bound of a weighted sum of a plan's integer costs."""

    weights: np.ndarray  # (costs,)
    most: float

    def over(self, raw: np.ndarray) -> float:
        """Return by how much a plan breaks the bound; zero or less: it does not."""
        return float(self.weights @ raw) - self.most


class ExactPlacement:
    """The exact solver of one space under the objectives of a goal.

    `live` is the share of made bytes at the peak, `passes` how many passes all solutions have taken.
    """

    def __init__(self, space: CompiledSpace, state: EvaluationState, goal: Goal) -> None:
        self.space, self.state, self.goal = space, state, goal
        self.costs = AdditiveCosts(space)
        self.live = LIVE
        self.passes = 0
        self._messages: dict[bool, Messages] = {}

    def plans(self) -> Iterator[ExactPlan]:
        """Yield the plans of all scalarizations, in several distances of prefetch each."""
        for count, strategies in enumerate(self._solutions(), 1):
            for prefetch in PREFETCHES:
                yield ExactPlan(strategies, prefetch)
            if count >= FEWEST and self.passes * self.costs.size > WORK:
                return

    def _solutions(self) -> Iterator[np.ndarray]:
        """Yield the strategies of least time, of the least of each objective, and of what lies between."""
        prices = np.zeros(self.goal.weights.shape[1])
        prices[TIME] = 1.0
        first = [self._least(prices, is_shared) for is_shared in (False, True)]
        yield from first
        fastest = min(map(self._raw, first), key=lambda raw: int(raw[TIME]))
        gradient = self._gradient(fastest)
        raws = [fastest]
        is_none = gradient @ fastest == 0.0
        for k, is_shared in product(np.argsort(is_none, kind="stable"), (False, True)):
            scale = _scale(gradient, raws)
            weight = NUDGE * scale
            weight[k] = scale[k]
            found = self._least(weight @ gradient, is_shared)
            raws.append(self._raw(found))
            yield found
        for limit in self._broken_limits(fastest):
            yield from self._within(limit, gradient, fastest)
        values = [self._values(raw) for raw in raws]
        scale, spans = _scale(gradient, raws), np.ptp(values, axis=0)
        moving = spans > STILL * np.max(values, axis=0)
        for n, point in enumerate(spread_points(SCALARIZATIONS, int(moving.sum()))):
            weight = NUDGE * scale
            weight[moving] = 10.0 ** (STEEPEST * (point - 0.5)) / spans[moving]
            yield self._least(weight @ gradient, bool(n % 2))

    def _broken_limits(self, raw: np.ndarray) -> Iterator[_Limit]:
        """Yield the bounds of the goal that a plan breaks, of those that are sums of integer costs."""
        goal, objectives = self.goal, len(self.goal.epsilon)
        for k, most in enumerate(goal.bounds):
            form = objectives + k
            if goal.program_start[form] == goal.program_start[form + 1]:
                limit = _Limit(goal.weights[form], float(most - goal.constants[form]))
                if limit.over(raw) > 0.0:
                    yield limit

    def _within(self, limit: _Limit, gradient: np.ndarray, fastest: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the strategies of the least of each objective at the multipliers between which a bound is kept."""
        size = float(limit.weights @ fastest)
        for row in gradient:
            scale = float(row @ fastest)
            if scale <= 0.0 or size <= 0.0:
                continue
            low, high = LEAST_MULTIPLIER, MOST_MULTIPLIER  # exponents of ten
            for _ in range(MULTIPLIERS):
                middle = (low + high) / 2
                prices = row / scale + 10.0**middle / size * limit.weights
                found = [self._least(prices, is_shared) for is_shared in (False, True)]
                yield from found
                if min(limit.over(self._raw(each)) for each in found) > 0.0:
                    low = middle
                else:
                    high = middle

    def _least(self, prices: np.ndarray, is_shared: bool) -> np.ndarray:
        """Return the strategies of least additive cost under prices of the integer costs."""
        problem = self.costs.problem(self._weights(prices), shared=is_shared)
        messages = self._messages.setdefault(is_shared, new_messages(problem))
        solution = solve(problem, messages, passes=PASSES, close=CLOSE)
        self.passes += solution.passes
        genes = self.costs.genes(solution.labels)
        resident, passing = self.costs.bytes_of(solution.labels)
        if passing > 0:
            self.live = float(np.clip((self._raw(genes)[PEAK] - resident) / passing, LEAST_LIVE, 1.0))
        return genes

    def _raw(self, genes: np.ndarray) -> np.ndarray:
        """Compute the integer costs of strategies without prefetch."""
        raw = np.zeros(self.goal.weights.shape[1], np.int64)
        edges = np.zeros((2, self.space.edge_tensor.size), np.int8)
        evaluate(self.space, self.state, genes.astype(np.int16), edges[0], edges[1], raw)
        return raw

    def _weights(self, prices: np.ndarray) -> Weights:
        devices = float(self.space.classes.sum())
        memory = prices[PEAK] + devices * (prices[TOTAL] + prices[MEMORY_WASTE])
        return Weights(
            compute_ticks=prices[TIME],
            copy_ticks=prices[TIME],
            traffic=prices[TRAFFIC],
            energy=prices[ENERGY],
            resident=memory,
            passing=self.live * memory,
            copied=self.live * memory,
            flops=prices[FLOPS] + prices[FLOPS_WASTE] + prices[PEAK_FLOPS] / devices,
            amounts=float(prices[ENERGY + 1 :].sum()),
        )

    def _values(self, raw: np.ndarray) -> np.ndarray:
        value = np.zeros(len(self.goal.epsilon))
        objective_values(self.goal, raw, value)
        return value

    def _gradient(self, raw: np.ndarray) -> np.ndarray:
        """Compute by how much each objective grows with each integer cost `(objectives, costs)`, near a plan."""
        here = self._values(raw)
        found = np.zeros((len(here), len(raw)))
        for column in range(len(raw)):
            moved = raw.copy()
            step = max(1, int(PROBE * raw[column]))
            moved[column] += step
            found[:, column] = np.maximum(self._values(moved) - here, 0.0) / step
        return found


def _scale(gradient: np.ndarray, raws: Sequence[np.ndarray]) -> np.ndarray:
    """Compute the weights `(objectives,)` under which all objectives of the first plan count alike.

    Of what the first plan has nothing (traffic, on one device) the most of the others counts, and a weight of zero
    where none has any: no plan says what it may come to.
    """
    sizes = np.abs(gradient @ np.stack(raws, axis=1))
    size = np.where(sizes[:, 0] > 0.0, sizes[:, 0], sizes.max(axis=1))
    return np.asarray(np.divide(1.0, size, out=np.zeros_like(size), where=size > 0.0))
