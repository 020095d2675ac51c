"""A record of the fronts that a contender has found, by the CPU seconds that it has taken."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.archive.dominance import nondominated

# CPU seconds between two records at least: building a record takes a millisecond or two.
PERIOD_S = 0.05


class TimeSpent(Exception):
    """Error raised in a contender whose CPU seconds are spent."""


class FrontRecord(NamedTuple):
    """The front `(n, m)` after so many CPU seconds and evaluations."""

    cpu_s: float
    evaluations: int
    front: np.ndarray


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class FrontRecorder:
    """The records of one contender, whose clock `now` starts here; what recording takes does not count.

    The contender is ended once it has taken `limit_s`.
    """

    def __init__(self, limit_s: float, now: Callable[[], float] = cpu_seconds) -> None:
        self.records: list[FrontRecord] = []
        self.limit_s = limit_s
        self._now, self._began_s, self._own_s, self._next_s = now, now(), 0.0, 0.0

    @property
    def spent_s(self) -> float:
        """The CPU seconds that the contender has taken."""
        return self._now() - self._began_s - self._own_s

    @property
    def is_over(self) -> bool:
        """True once the time is spent."""
        return self.spent_s >= self.limit_s

    def check(self) -> None:
        """Raise `TimeSpent` once the time is spent."""
        if self.is_over:
            raise TimeSpent

    def add(self, values: Callable[[], np.ndarray], evaluations: int, is_last: bool = False) -> None:
        """Record the front of `values()` `(n, m)`, unless the last record is from a moment ago.

        Raises:
            TimeSpent: the time was spent before; nothing is recorded then.
        """
        self.check()
        cpu_s = self.spent_s
        if cpu_s < self._next_s and not is_last:
            return
        began_s = self._now()
        found = values()
        self.records.append(FrontRecord(cpu_s, evaluations, found[nondominated(found)].copy()))
        self._own_s += self._now() - began_s
        self._next_s = cpu_s + PERIOD_S

    def at(self, cpu_s: float) -> FrontRecord | None:
        """Return the last record of the first `cpu_s` seconds; None where there is none yet."""
        return next((r for r in reversed(self.records) if r.cpu_s <= cpu_s), None)

    def checkpoints(self, seconds: Sequence[float]) -> list[FrontRecord]:
        """Return what was found by each of the seconds; an empty front where nothing was."""
        nothing = FrontRecord(0.0, 0, np.zeros((0, 0)))
        return [(self.at(s) or nothing)._replace(cpu_s=s) for s in seconds]
