"""Workers' heartbeats: they show whether a worker is there for queued jobs, and whether its clock is right."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from tapestry.service.store.records import WorkerHeartbeat
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import WorkerRow
from tapestry.service.store.watch import Watch

_COLUMNS = (
    WorkerRow.name,
    WorkerRow.host,
    WorkerRow.pid,
    WorkerRow.status,
    WorkerRow.subject,
    WorkerRow.seen_at,
    WorkerRow.beat,
    WorkerRow.ahead_s,
    WorkerRow.pss_bytes,
)
ALIVE_S = 10.0  # a worker that has stood still for so long is not counted on
FORGOTTEN_S = 60.0  # a worker that has stood still for so long is taken off the list


class Workers:
    """The workers that have sent heartbeats, which are counted, and the times of these."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database, self._watch = database, Watch(clock)

    def beat(
        self,
        name: str,
        now: datetime,
        *,
        host: str,
        pid: int,
        status: str,
        subject: str | None,
        pss_bytes: int = 0,
    ) -> float | None:
        """Record a heartbeat of a worker, with its status, current job and memory.

        Return by how much its clock is ahead of the database's, None where that has no clock of its own.
        """
        values: dict[str, Any] = {
            "host": host,
            "pid": pid,
            "status": status,
            "subject": subject,
            "seen_at": now,
        }
        values["pss_bytes"] = pss_bytes
        with self._database.writing() as connection:
            ahead_s = _ahead_s(connection, now)
            values["ahead_s"] = ahead_s
            again = update(WorkerRow).where(WorkerRow.name == name).values(beat=WorkerRow.beat + 1, **values)
            if connection.execute(again).rowcount == 0:
                connection.execute(insert(WorkerRow).values(name=name, beat=0, **values))
            self._forget(connection)
        return ahead_s

    def _forget(self, connection: Connection) -> None:
        """Take workers off the list that ended without a word; one that lives after all is back with its next beat."""
        counters = {row.name: row.beat for row in connection.execute(select(WorkerRow.name, WorkerRow.beat))}
        still = self._watch.still_s(counters)
        gone = [name for name, seconds in still.items() if seconds >= FORGOTTEN_S]
        if gone:
            connection.execute(delete(WorkerRow).where(WorkerRow.name.in_(gone)))

    def alive(self, within_s: float) -> tuple[WorkerHeartbeat, ...]:
        """Return the workers whose heartbeats this store has not seen stand still for so many seconds.

        One that it sees for the first time counts as alive.
        """
        query = select(*_COLUMNS).order_by(WorkerRow.name)
        with self._database.reading() as connection:
            found = [WorkerHeartbeat(*row) for row in connection.execute(query)]
        still = self._watch.still_s({worker.name: worker.beat for worker in found})
        return tuple(worker for worker in found if still[worker.name] < within_s)

    def gone(self, name: str) -> None:
        """Remove a worker that has ended."""
        with self._database.writing() as connection:
            connection.execute(delete(WorkerRow).where(WorkerRow.name == name))


def _ahead_s(connection: Connection, now: datetime) -> float | None:
    """Return by how many seconds a time of day is ahead of the database server's clock; a file has none."""
    if connection.dialect.name != "postgresql":
        return None
    there = connection.scalar(select(func.clock_timestamp()))
    return None if there is None else round((now - there).total_seconds(), 3)
