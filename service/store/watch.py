"""Counters that are watched from outside: how long each has stood still, by the clock of whoever looks.

Clocks of machines differ, and jump; that a counter moves, all see alike. Imported by what tells dead workers from
living ones.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Hashable, Mapping


class Watch:
    """The counters seen at the last look, each with the seconds for which it has stood where it is.

    `clock` returns seconds and never goes back: that of this process, not the time of day. Of the time between two
    looks at most `longest_s` count: who could not look, as it slept or the database was away, saw nobody stand still.
    """

    def __init__(self, clock: Callable[[], float], longest_s: float = math.inf) -> None:
        self._clock, self._longest_s, self._lock = clock, longest_s, threading.Lock()
        self._seen: dict[Hashable, tuple[Hashable, float]] = {}
        self._looked_at = -math.inf

    def still_s(self, counters: Mapping[Hashable, Hashable]) -> dict[Hashable, float]:
        """Return for how many seconds each counter stood still, 0 where it is new or moved; forget all others."""
        now = self._clock()
        with self._lock:
            passed, before = min(now - self._looked_at, self._longest_s), self._seen
            self._looked_at = now
            self._seen = {
                name: (
                    value,
                    before[name][1] + passed if name in before and before[name][0] == value else 0.0,
                )
                for name, value in counters.items()
            }
            return {name: still for name, (_, still) in self._seen.items()}
