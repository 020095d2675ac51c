"""The reads by which servers follow runs for all their readers at once: has anything changed, and what is new."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, select

from tapestry.service.store.records import RunEvent
from tapestry.service.store.sessions import Database
from tapestry.service.store.tables import EventRow, RunRow


class RunWatch:
    """Revisions and events of runs, of many runs by one query. Who may see a run is checked before it is watched."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def revisions(self, runs: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
        """Return the revisions of those of these runs, each by its tenant and id, that are there.

        What is shown of a run changes with its revision alone.
        """
        columns = (RunRow.tenant, RunRow.id, RunRow.revision)
        query = select(*columns).where(RunRow.id.in_([run_id for _, run_id in runs]))
        with self._database.reading() as connection:
            found = {(row.tenant, row.id): row.revision for row in connection.execute(query)}
        return {run: found[run] for run in runs if run in found}

    def last_events(self, run_ids: Collection[str]) -> dict[str, int]:
        """Return the number of the newest event of each of these runs that is there."""
        query = select(RunRow.id, RunRow.last_event).where(RunRow.id.in_(run_ids))
        with self._database.reading() as connection:
            return {row.id: row.last_event for row in connection.execute(query)}

    def events(self, run_id: str, after: int, limit: int) -> tuple[RunEvent, ...]:
        """Return the events of a run after the event with that number, at most `limit`."""
        with self._database.reading() as connection:
            return events_of(connection, run_id, after, limit)


def events_of(connection: Connection, run_id: str, after: int, limit: int) -> tuple[RunEvent, ...]:
    """Return the events of a run after the event with that number, at most `limit`."""
    query = select(EventRow.number, EventRow.kind, EventRow.data, EventRow.created_at)
    query = query.where(EventRow.run_id == run_id, EventRow.number > after)
    return tuple(RunEvent(*row) for row in connection.execute(query.order_by(EventRow.number).limit(limit)))
