"""Workers' heartbeats: they show whether a worker is there for queued jobs."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import delete, insert, select, update

from tapestry.service.store.records import WorkerHeartbeat
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import WorkerRow

_COLUMNS = (
    WorkerRow.name,
    WorkerRow.host,
    WorkerRow.pid,
    WorkerRow.status,
    WorkerRow.subject,
    WorkerRow.seen_at,
)


class Workers:
    """The workers that have sent heartbeats, and the times of these."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def beat(
        self, name: str, now: datetime, *, host: str, pid: int, status: str, subject: str | None
    ) -> None:
        """Record a heartbeat of a worker, with its status and current job."""
        values = {"host": host, "pid": pid, "status": status, "subject": subject, "seen_at": now}
        with self._database.writing() as connection:
            again = update(WorkerRow).where(WorkerRow.name == name).values(values)
            if connection.execute(again).rowcount == 0:
                connection.execute(insert(WorkerRow).values(name=name, **values))

    def alive(self, since: datetime) -> tuple[WorkerHeartbeat, ...]:
        """Return the workers that have sent a heartbeat since then."""
        query = select(*_COLUMNS).where(WorkerRow.seen_at >= since).order_by(WorkerRow.name)
        with self._database.reading() as connection:
            return tuple(WorkerHeartbeat(*row) for row in connection.execute(query))

    def gone(self, name: str) -> None:
        """Remove a worker that has ended."""
        with self._database.writing() as connection:
            connection.execute(delete(WorkerRow).where(WorkerRow.name == name))
