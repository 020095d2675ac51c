"""Lagrange multipliers of a limit: prices of slots at which labels of least cost nearly keep it.

For any prices that are not negative, the least cost with prices paid, less what all room is worth, is a lower bound of
the least cost within the limit. Prices climb along averaged subgradients (Barahona and Anbil, The volume algorithm:
producing primal solutions with a subgradient method, 2000), with steps after Polyak; each step costs a few passes of
messages, that go on from those of the step before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.exact.capped import Loads
from tapestry.optimizer.exact.pairwise import Pairwise
from tapestry.optimizer.exact.trws import new_messages, solve

PATIENCE = 12  # steps without a better bound until they become shorter
SHORTEST = 1e-3
FIRST = 60  # passes without prices
CLOSE = 1e-9


class Prices(NamedTuple):
    """Prices of slots, the bound they prove, and the messages that prove it."""

    bound: float
    values: np.ndarray  # (slots,)


Watch = Callable[[np.ndarray, np.ndarray, float], float]


def climb(
    problem: Pairwise,
    loads: Loads,
    watch: Watch,
    go_on: Callable[[], bool],
    *,
    start: np.ndarray | None = None,
    passes: int = 2,
) -> Prices:
    """Raise the bound while `go_on()`; `watch(labels, load, bound)` returns the least cost known within the limit."""
    messages = new_messages(problem)
    scale = loads.capacity.max(initial=1.0)
    values = np.zeros(len(loads.capacity)) if start is None else start.copy()
    best, mean, length, still, now = Prices(-np.inf, values), None, 1.0, 0, FIRST
    while go_on():
        unary = problem.unary + loads.charged(problem.label_start, values)
        found = solve(problem._replace(unary=unary), messages, passes=now, close=0.0)
        worth = float(np.sum(values * loads.capacity))
        bound = found.bound - worth - 1e-12 * worth
        load = loads.of_labels(found.labels)
        least = watch(found.labels, load, max(bound, best.bound))
        still = 0 if bound > best.bound + 1e-6 * abs(bound) else still + 1
        if bound > best.bound:
            best = Prices(bound, values.copy())
        if np.isfinite(least) and least - best.bound <= CLOSE * abs(least):
            break
        if still >= PATIENCE:
            length, still = length * 0.66, 0
            values, mean = best.values.copy(), None
            if length < SHORTEST:
                break
        over = (load - loads.capacity) / scale
        mean = over if mean is None else 0.8 * mean + 0.2 * over
        ways = np.where((values <= 0) & (mean < 0), 0.0, mean)
        size = float(np.sum(ways * ways))
        now = passes
        if size > 0:
            gap = max(min(least - bound, 0.05 * abs(bound)), 1e-4 * abs(bound), 1e-9)
            values = np.maximum(values + length * gap / size * ways / scale, 0.0)
        else:
            now = 4 * passes
    return best
