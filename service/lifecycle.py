"""The life cycle of a job, decided without I/O: its status and an event determine its next status.

Runs and executions have the same life cycle. A crash is no event of a job: it stays `running`, its lease runs
out, and the worker that claims it next reports `claimed` again.
"""

from __future__ import annotations

from typing import Literal

Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Event = Literal["claimed", "released", "cancel_requested", "finished", "failed", "cancelled"]

STATUSES: tuple[Status, ...] = ("queued", "running", "succeeded", "failed", "cancelled")
ENDED: tuple[Status, ...] = ("succeeded", "failed", "cancelled")

_NEXT: dict[tuple[Status, Event], Status] = {
    ("queued", "claimed"): "running",
    ("queued", "cancel_requested"): "cancelled",
    ("queued", "failed"): "failed",
    ("running", "claimed"): "running",
    ("running", "released"): "queued",
    ("running", "cancel_requested"): "running",
    ("running", "finished"): "succeeded",
    ("running", "failed"): "failed",
    ("running", "cancelled"): "cancelled",
}


class InvalidTransition(ValueError):
    """Error raised for an event impossible in a job's status; the message names both and the possible events."""


def next_status(status: Status, event: Event) -> Status:
    """Return the status of a job after an event.

    Raises:
        ImpossibleStep: nothing happens any more to a job that has ended, and only some things to others.
    """
    if (status, event) not in _NEXT:
        possible = [known for (now, known) in _NEXT if now == status]
        hint = f"possible: {', '.join(possible)}" if possible else "it has ended"
        raise InvalidTransition(f"{event!r} cannot happen to a job that is {status!r}; {hint}")
    return _NEXT[status, event]


def is_ended(status: str) -> bool:
    """Return whether a job of this status has ended, so that no event can happen to it."""
    return status in ENDED
