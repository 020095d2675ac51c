"""Tallies: what processes count and time, added up in the database, so that a server can report it for workers.

A process keeps its own in memory, and `flush` adds them to the rows of all. Workers flush with their heartbeats, so one
that is killed takes about a second's worth with it. Rows only ever grow, as counters must.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_left
from collections.abc import Mapping
from typing import Final, NamedTuple

from sqlalchemy import Connection, select
from sqlalchemy.dialects import postgresql, sqlite

from tapestry.service.store.records import Job
from tapestry.service.store.tables import TallyRow

ATTEMPTS: Final = "attempts"
LEASE_LOSSES: Final = "lease_losses"
EVALUATIONS: Final = "evaluations"
ENDED: Final = "jobs_ended"
PHASE_SECONDS: Final = "phase_duration_seconds"
DATABASE_SECONDS: Final = "database_transaction_seconds"

SUM: Final = "sum"
# The upper limits of the classes in which durations are counted, in seconds.
CLASSES: Mapping[str, tuple[float, ...]] = {
    PHASE_SECONDS: (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0),
    DATABASE_SECONDS: (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0),
}


class TallyKey(NamedTuple):
    """A key of a tally: what is counted, the value of its one label, and for durations the class, or `sum`."""

    name: str
    label: str
    part: str = ""


class Tallies:
    """The counts and durations of one process that are not in the database yet; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[TallyKey, float] = {}
        self._phases: dict[tuple[str, str], tuple[str, float]] = {}

    def count(self, name: str, label: str, amount: float = 1.0) -> None:
        """Count something once, or so often."""
        self._add({TallyKey(name, label): amount})

    def time(self, name: str, label: str, seconds: float) -> None:
        """Count something that took so long."""
        classes = CLASSES[name]
        place = bisect_left(classes, seconds)
        part = repr(classes[place]) if place < len(classes) else "+Inf"
        self._add({TallyKey(name, label, part): 1.0, TallyKey(name, label, SUM): seconds})

    def take(self) -> dict[TallyKey, float]:
        """Return what was found since the last call."""
        with self._lock:
            found, self._found = self._found, {}
        return found

    def look(self) -> dict[TallyKey, float]:
        """Return what `take` would, and leave it."""
        with self._lock:
            return dict(self._found)

    def give_back(self, found: Mapping[TallyKey, float]) -> None:
        """Keep what was taken, for another try."""
        self._add(found)

    def _add(self, amounts: Mapping[TallyKey, float]) -> None:
        with self._lock:
            for key, amount in amounts.items():
                self._found[key] = self._found.get(key, 0.0) + amount

    # As an observer of jobs.

    def claimed(self, job: Job) -> None:
        self.count(ATTEMPTS, job.kind)

    def entered(self, job: Job, phase: str) -> None:
        now, key = time.monotonic(), (job.kind, job.subject)
        before, since = self._phases.get(key, ("", math.nan))
        if phase == before:
            return
        if before:
            self.time(PHASE_SECONDS, before, now - since)
        if phase:
            self._phases[key] = (phase, now)
        else:
            self._phases.pop(key, None)

    def evaluated(self, job: Job, evaluations: int) -> None:
        self.count(EVALUATIONS, "", evaluations)

    def left(self, job: Job, outcome: str) -> None:
        self.count(ENDED, f"{job.kind} {outcome}")
        self.entered(job, "")

    def lost(self, job: Job) -> None:
        self.count(LEASE_LOSSES, job.kind)
        self.entered(job, "")


def add_tallies(connection: Connection, found: Mapping[TallyKey, float]) -> None:
    """Add what a process has found to the rows of all, always in one order, so that no two wait for each other."""
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    for key in sorted(found):
        row = dialect.insert(TallyRow).values(**key._asdict(), value=found[key])
        more = {"value": TallyRow.value + row.excluded.value}
        connection.execute(row.on_conflict_do_update(index_elements=list(TallyKey._fields), set_=more))


def stored_tallies(connection: Connection) -> dict[TallyKey, float]:
    """Return the tallies of all processes that have flushed theirs."""
    columns = (TallyRow.name, TallyRow.label, TallyRow.part, TallyRow.value)
    rows = connection.execute(select(*columns))
    return {TallyKey(row.name, row.label, row.part): row.value for row in rows}
