"""The places of waiting runs: how many go first, and when each is expected to begin."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, select

from tapestry.service.scheduling import (
    ExpectedStart,
    Spread,
    Waiting,
    expected_seconds,
    in_order,
    spread_of,
    starts,
)
from tapestry.service.store.claiming import shares_of
from tapestry.service.store.codec import stored_options
from tapestry.service.store.records import Kind, QueuePlace
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import LeaseRow, RunRow

RECENT = 20  # runs that ended, by which durations are estimated
LARGE = 200  # a queue that is not put in order again for a second
KEPT_S = 1.0

_L, _RUNS = LeaseRow.__table__.c, RunRow.__table__.c


class WaitingRuns:
    """The runs that wait for a worker, in the order in which they would be claimed now.

    That has the runs of all tenants. Of the durations of ended runs only those of the tenant count that looks.
    """

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._clock = database, clock
        self._lock = threading.Lock()
        self._kept: dict[Kind, tuple[float, tuple[Waiting, ...]]] = {}

    def place(self, run_id: str, tenant: str, now: datetime, workers: int) -> QueuePlace | None:
        """Return the place of a run, with `workers` alive; None if it does not wait."""
        with self._database.reading() as connection:
            order = self._order(connection, "run")
            position = next((k for k, job in enumerate(order) if job.subject == run_id), None)
            if position is None:
                return None
            spread = _spread(connection, tenant)
            start = _start(connection, order[: position + 1], spread, workers)
        if start is None:
            return QueuePlace(position + 1, None, None, None, True)
        seconds = (start.expected_s, start.earliest_s, start.latest_s)
        expected, earliest, latest = (now + timedelta(seconds=each) for each in seconds)
        return QueuePlace(position + 1, expected, earliest, latest, spread.is_guess)

    def position(self, subject: str, kind: Kind) -> int | None:
        """Return the place of a job of a kind, 1 for the next one; None if it does not wait."""
        with self._database.reading() as connection:
            order = self._order(connection, kind)
        return next((k for k, job in enumerate(order, 1) if job.subject == subject), None)

    def _order(self, connection: Connection, kind: Kind) -> tuple[Waiting, ...]:
        """Return the waiting jobs of a kind in order; that of a large queue is kept for a moment."""
        with self._lock:
            until_s, kept = self._kept.get(kind, (0.0, ()))
            if kept and self._clock() < until_s:
                return kept
            columns = (_L.subject, _L.tenant, _L.priority, _L.number, _L.expected_s)
            waiting = connection.execute(select(*columns).where(_L.owner.is_(None), _L.kind == kind))
            order = tuple(in_order((Waiting(*row) for row in waiting), shares_of(connection)))
            self._kept[kind] = (self._clock() + KEPT_S, order) if len(order) > LARGE else (0.0, ())
            return order


def _start(
    connection: Connection, order: tuple[Waiting, ...], spread: Spread, workers: int
) -> ExpectedStart | None:
    """Return when the last job of an order is expected to begin; None where nobody is there to begin it."""
    held = and_(_L.owner.is_not(None), _L.kind == "run")
    running = select(_L.expected_s, _RUNS.seconds).where(held, _RUNS.id == _L.subject)
    budgets = [(row.expected_s, row.seconds) for row in connection.execute(running)]
    places = max(workers, len(budgets))
    return starts(order, budgets, places, spread)[-1] if places else None


def _spread(connection: Connection, tenant: str) -> Spread:
    """Return how long the newest runs of a tenant took, over what was expected of them."""
    ended = select(_RUNS.options, _RUNS.started_at, _RUNS.ended_at).where(
        _RUNS.tenant == tenant,
        _RUNS.status == "succeeded",
        _RUNS.started_at.is_not(None),
        _RUNS.ended_at.is_not(None),
    )
    newest = ended.order_by(_RUNS.created_at.desc(), _RUNS.id.desc()).limit(RECENT)
    return spread_of(
        [
            max((ended_at - started_at).total_seconds(), 0.0) / expected_seconds(stored_options(options))
            for options, started_at, ended_at in connection.execute(newest)  # by clocks that may disagree
        ]
    )
