"""The clock of a search: the time that its limits leave it, and the deadline of everything around it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from tapestry.costmodel.compiled import compile_seconds
from tapestry.optimizer.run.stopping import StopRequested
from tapestry.teg.stopping import CheckStop

Now = Callable[[], float]
# The most of the time up to a deadline that is kept for the checks after the search: half of what the search gets.
LARGEST_RESERVE = 1 / 3
# The share of its time that a search with a deadline spends at most on what makes it better before it begins.
PREPARATION_SHARE = 1 / 2


class OutOfTime(StopRequested):
    """Error raised between two units of work because the time of the search is spent."""


@dataclass(frozen=True)
class Deadline:
    """The moment `at_s`, by the clock `now`, by which all work of a request is to be done."""

    at_s: float
    now: Now = time.perf_counter

    @staticmethod
    def after(seconds: float, now: Now = time.perf_counter) -> Deadline:
        """Return the deadline that is `seconds` away."""
        return Deadline(now() + seconds, now)

    @property
    def left_s(self) -> float:
        """The seconds that are left; below 0 once it has passed."""
        return self.at_s - self.now()


class SearchClock:
    """The time of a search, which is that of its preparation and its rounds.

    It is over once `seconds` are spent, or the deadline leaves `reserve_s` seconds, which are for what comes after the
    search. `spent_before_s` is what the search had spent when it was saved. Compiling the loops, which a machine does
    once, counts for the deadline alone: `compiled_s()` are the seconds that this process has spent on it.
    """

    def __init__(
        self,
        seconds: float | None = None,
        deadline: Deadline | None = None,
        now: Now = time.perf_counter,
        compiled_s: Callable[[], float] = compile_seconds,
    ) -> None:
        self.seconds, self.deadline = seconds, deadline
        self.spent_before_s, self.reserve_s = 0.0, 0.0
        self._now = now if deadline is None else deadline.now
        self._compiled_s = compiled_s
        self._began_s, self._compiled_before_s = self._now(), compiled_s()

    def reserve(self, wanted_s: float) -> None:
        """Keep so many seconds for what comes after the search, but no more than half of what the search gets."""
        if self.deadline is not None:
            both_s = self._now() - self._began_s + max(self.deadline.left_s, 0.0)
            self.reserve_s = min(wanted_s, LARGEST_RESERVE * both_s)

    @property
    def spent_s(self) -> float:
        """The seconds that the search has taken so far."""
        compiled_s = self._compiled_s() - self._compiled_before_s
        return self.spent_before_s + self._now() - self._began_s - compiled_s

    @property
    def left_s(self) -> float:
        """The seconds that are left for the search; infinite without a limit."""
        own = math.inf if self.seconds is None else self.seconds - self.spent_s
        return own if self.deadline is None else min(own, self.deadline.left_s - self.reserve_s)

    @property
    def fraction(self) -> float:
        """The share of the time that is spent, from 0 to 1; 0 without a limit."""
        allowed = self.spent_s + max(self.left_s, 0.0)
        return self.spent_s / allowed if allowed > 0 else 1.0

    def ends_within(self, seconds: float) -> bool:
        """Return whether the time is over in so many seconds."""
        return self.left_s <= seconds

    @property
    def reason(self) -> str:
        """The limit that ends the search first: "deadline", or "budget"."""
        if self.deadline is None:
            return "budget"
        own = math.inf if self.seconds is None else self.seconds - self.spent_s
        return "budget" if own < self.deadline.left_s - self.reserve_s else "deadline"

    def check(self, check_stop: CheckStop) -> CheckStop:
        """Return a function that calls `check_stop`, and raises `OutOfTime` once the time is over."""
        return self._check(check_stop, lambda: self.ends_within(0.0))

    def check_preparation(self, check_stop: CheckStop) -> CheckStop:
        """Return a function like that of `check`, for what may be left out of the preparation.

        With a deadline it raises once half of the search's time is spent. A search without one is repeated by its
        evaluations, and finishes its preparation.
        """
        if self.deadline is None:
            return check_stop
        return self._check(check_stop, lambda: self.fraction >= PREPARATION_SHARE)

    @staticmethod
    def _check(check_stop: CheckStop, is_over: Callable[[], bool]) -> CheckStop:
        def check() -> None:
            check_stop()
            if is_over():
                raise OutOfTime

        return check
