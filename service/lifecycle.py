"""The life of a job, decided without I/O: from its status and what happened to its next status.

Runs and executions live alike. A crash is no event of a job: it stays `running`, its lease runs out, and
whoever claims it next says `claimed` again.
"""

from __future__ import annotations

from typing import Literal

Status = Literal["queued", "running", "succeeded", "failed", "cancelled"]
Event = Literal["claimed", "released", "cancel_requested", "finished", "failed", "cancelled"]

STATUSES: tuple[Status, ...] = ("queued", "running", "succeeded", "failed", "cancelled")
EVENTS: tuple[Event, ...] = ("claimed", "released", "cancel_requested", "finished", "failed", "cancelled")
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


class ImpossibleStep(ValueError):
    """An event that cannot happen to a job of this status; the message tells both and what could."""


def step(status: Status, event: Event) -> Status:
    """The status of a job after an event.

    Raises:
        ImpossibleStep: nothing happens any more to a job that has ended, and only some things to others.
    """
    if (status, event) not in _NEXT:
        possible = [known for (now, known) in _NEXT if now == status]
        hint = f"possible: {', '.join(possible)}" if possible else "it has ended"
        raise ImpossibleStep(f"{event!r} cannot happen to a job that is {status!r}; {hint}")
    return _NEXT[status, event]


def is_ended(status: str) -> bool:
    """Whether nothing will happen to a job of this status any more."""
    return status in ENDED
