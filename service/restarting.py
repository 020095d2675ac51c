"""The pause before a process that has died is started again: ever longer where it dies young."""

from __future__ import annotations

FIRST_S = 0.5
LONGEST_S = 30.0
SETTLED_S = 60.0


class RestartPause:
    """The pauses of one supervisor; a process that lived for a minute begins them anew."""

    def __init__(self) -> None:
        self._next_s = FIRST_S

    def after(self, lived_s: float) -> float:
        """Return the seconds to wait after a process that lived for so long."""
        pause_s = FIRST_S if lived_s > SETTLED_S else self._next_s
        self._next_s = min(2 * pause_s, LONGEST_S)
        return pause_s
