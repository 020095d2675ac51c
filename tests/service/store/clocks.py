"""A clock that tests set, and workers that watch a lease by it."""

from __future__ import annotations

from datetime import datetime

from tapestry.service.store import Job, Store
from tests.service.store.submissions import LEASE_S

LOOK_S = 0.5


class ManualClock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def claimed_after(
    store: Store, clock: ManualClock, owner: str, now: datetime, watched_s: float
) -> Job | None:
    """Ask for work again and again for so many seconds, as an idle worker does; return what it gets, if anything."""
    until = clock.seconds + watched_s
    while True:
        job = store.jobs.claim(owner, now, LEASE_S)
        if job is not None or clock.seconds >= until:
            return job
        clock.seconds = min(clock.seconds + LOOK_S, until)


def taken_over(store: Store, clock: ManualClock, owner: str, now: datetime) -> Job | None:
    """Return the job of a worker that says nothing any more, after the length of its lease."""
    return claimed_after(store, clock, owner, now, LEASE_S)
