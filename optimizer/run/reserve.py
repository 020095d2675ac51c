"""The time that a search with a deadline keeps for the checks after it, estimated again while it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.report import LARGEST_FRONTIER, plan_of
from tapestry.optimizer.run.plan import Plan
from tapestry.optimizer.run.state import SearchState

# The shares of a search after which the checks of one more plan are measured: plans of a later front share less.
MEASURED_AT = (0.25, 0.5, 0.75, 0.9)

Estimate = Callable[[Sequence[Plan], int], float]


class Reserve:
    """The time that is kept for the checks: what `estimate` makes of some plans and the count of all.

    The first plans are measured before the first round. Then come plans of the front as it is by then, from its
    fastest end to its slowest, one after each share of the search, so that the estimate follows what plans have become
    and how much of the machine others take.
    """

    def __init__(self, state: SearchState, estimate: Estimate | None) -> None:
        self._state, self._estimate = state, estimate
        self._built_s = 0.0
        self._due = list(MEASURED_AT)
        state.clock.reserve(0.0 if estimate is None else math.inf)

    def measure_first(self) -> None:
        """Measure two of the plans that the search begins with, or as many as there are.

        Where the search is over already, all the time that may be kept is kept.
        """
        deadline, variant = self._state.clock.deadline, self._state.variants[0]
        if deadline is None or self._estimate is None or self._state.clock.ends_within(0.0):
            return
        left_s, count = deadline.left_s, int(variant.archive.size[0])
        plans = [plan_of(variant, row) for row in sorted({0, count - 1}) if 0 <= row < count]
        self._built_s = (left_s - deadline.left_s) / max(len(plans), 1)
        self._keep(plans, LARGEST_FRONTIER)

    def measure_if_due(self) -> None:
        """Measure one more plan of the front where a further share of the search is over."""
        clock = self._state.clock
        if clock.deadline is None or self._estimate is None or not self._due or clock.fraction < self._due[0]:
            return
        position = 1.0 - len(self._due) / len(MEASURED_AT)
        self._due = [share for share in self._due if share > clock.fraction]
        values, owner = self._state.all_values()
        front = np.flatnonzero(nondominated(values))
        if len(front):
            row = int(front[np.argsort(values[front, 0], kind="stable")][int(position * len(front))])
            variant = self._state.variants[int(owner[row])]
            index = row - int(np.searchsorted(owner, owner[row]))
            self._keep([plan_of(variant, index)], min(len(front), LARGEST_FRONTIER))

    def _keep(self, plans: Sequence[Plan], count: int) -> None:
        assert self._estimate is not None
        self._state.clock.reserve(self._built_s * count + self._estimate(plans, count))
