"""Clocks for tests: the time is what a test says, or how often it was asked for."""

from __future__ import annotations


class SetClock:
    """A clock that shows `time_s`, which a test sets."""

    def __init__(self, time_s: float = 0.0) -> None:
        self.time_s = time_s

    def __call__(self) -> float:
        return self.time_s


class CountingClock:
    """A clock that goes on by a second whenever it is read."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def __call__(self) -> float:
        self.time_s += 1.0
        return self.time_s


class ListedClock:
    """A clock that shows these times in turn."""

    def __init__(self, *times_s: float) -> None:
        self._times_s = iter(times_s)

    def __call__(self) -> float:
        return next(self._times_s)
