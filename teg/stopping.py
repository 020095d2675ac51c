"""The check by which long work is stopped between its units."""

from __future__ import annotations

from collections.abc import Callable

# Called between units of work; an exception that it raises ends the work.
CheckStop = Callable[[], None]


def never_stop() -> None:
    """Do nothing: the check of work that nobody stops."""
