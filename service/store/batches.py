"""Batches in the store: runs that were asked for together, queued in one transaction."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import func, insert, select

from tapestry.service.scheduling import USUAL
from tapestry.service.store.codec import stored_options
from tapestry.service.store.pages import newest
from tapestry.service.store.queue import QueueLimits, remember
from tapestry.service.store.records import (
    BatchStanding,
    Cursor,
    Idempotency,
    NewBatchEntry,
    StoredBatch,
    StoredBatchEntry,
    Submitted,
)
from tapestry.service.store.runs import submit_run
from tapestry.service.store.sessions import Database, UnknownId
from tapestry.service.store.tables import BatchEntryRow, BatchRow, PlanRow, RunRow

_COUNT = (
    select(func.count())
    .where(BatchEntryRow.batch_id == BatchRow.id)
    .correlate(BatchRow)
    .scalar_subquery()
    .label("count")
)
_STATUS = func.coalesce(RunRow.status, "failed").label("status")  # of an entry
_SUMMARY = (BatchRow.id, BatchRow.name, _COUNT, BatchRow.created_at)


class Batches:
    """Batches and their entries."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self,
        name: str,
        entries: Sequence[NewBatchEntry],
        created_at: datetime,
        *,
        priority: int = USUAL,
        queue_limits: QueueLimits | None = None,
        idempotency: Idempotency | None = None,
        reusable: Mapping[str, str] | None = None,
    ) -> Submitted:
        """Queue the runs of a batch, all or none of them; stored runs that answer an entry are taken for it.

        Raises:
            QueueFull, KeyReused: too much would wait; the key meant another request.
        """
        batch_id = secrets.token_hex(6)
        with self._database.writing() as connection:
            if idempotency is not None:
                before = remember(connection, idempotency, batch_id, created_at)
                if before is not None:
                    return before
            connection.execute(insert(BatchRow).values(id=batch_id, name=name, created_at=created_at))
            rows = []
            for number, entry in enumerate(entries):
                run_id = None
                if entry.request is not None:
                    run_id = submit_run(
                        connection,
                        entry.request,
                        created_at,
                        priority=priority,
                        place=number,
                        queue_limits=queue_limits,
                        idempotency=None,
                        reusable=reusable,
                    ).id
                row = {"batch_id": batch_id, "number": number, "graph_id": entry.graph_id}
                row |= {"mesh_name": entry.mesh_name, "seed": entry.seed, "run_id": run_id}
                rows.append({**row, "problem": None if entry.problem is None else dict(entry.problem)})
            connection.execute(insert(BatchEntryRow), rows)
        return Submitted(batch_id, False, created_at)

    def get(self, batch_id: str) -> StoredBatch:
        """Return a batch by its id.

        Raises:
            UnknownId: there is none.
        """
        with self._database.reading() as connection:
            row = connection.execute(select(*_SUMMARY).where(BatchRow.id == batch_id)).one_or_none()
        if row is None:
            raise UnknownId(f"there is no batch {batch_id!r}")
        return StoredBatch(**row._mapping)

    def page(self, limit: int = 50, before: Cursor | None = None) -> tuple[StoredBatch, ...]:
        """Return batches, newest first; `before` is (created_at, id) of the last one seen."""
        with self._database.reading() as connection:
            rows = connection.execute(newest(select(*_SUMMARY), BatchRow, limit, before))
            return tuple(StoredBatch(**row._mapping) for row in rows)

    def standings(self, batch_ids: Collection[str]) -> dict[str, BatchStanding]:
        """Return how batches stand, by id."""
        query = (
            select(BatchEntryRow.batch_id, _STATUS, RunRow.best)
            .outerjoin(RunRow, RunRow.id == BatchEntryRow.run_id)
            .where(BatchEntryRow.batch_id.in_(batch_ids))
        )
        statuses: dict[str, dict[str, int]] = {batch_id: {} for batch_id in batch_ids}
        least: dict[str, dict[str, float]] = {batch_id: {} for batch_id in batch_ids}
        with self._database.reading() as connection:
            for batch_id, status, best in connection.execute(query):
                statuses[batch_id][status] = statuses[batch_id].get(status, 0) + 1
                for name, value in (best or {}).items():
                    least[batch_id][name] = min(value, least[batch_id].get(name, value))
        return {name: BatchStanding(statuses[name], least[name]) for name in batch_ids}

    def best(self, batch_id: str) -> dict[str, dict[str, float]]:
        """Return for every run of a batch the least value of each of its objectives on its frontier now."""
        query = (
            select(PlanRow.run_id, PlanRow.cost, RunRow.options)
            .join(BatchEntryRow, BatchEntryRow.run_id == PlanRow.run_id)
            .join(RunRow, RunRow.id == PlanRow.run_id)
            .where(BatchEntryRow.batch_id == batch_id, PlanRow.on_frontier.is_(True))
        )
        best: dict[str, dict[str, float]] = {}
        with self._database.reading() as connection:
            for run_id, cost, options in connection.execute(query):
                own = best.setdefault(run_id, {})
                for name in stored_options(options).objectives:
                    own[name] = min(cost[name], own.get(name, cost[name]))
        return best

    def entries(self, batch_id: str) -> tuple[StoredBatchEntry, ...]:
        """Return the entries of a batch in order, with the present status of their runs."""
        columns = (BatchEntryRow.number, BatchEntryRow.graph_id, BatchEntryRow.mesh_name, BatchEntryRow.seed)
        outcome = (
            BatchEntryRow.run_id,
            _STATUS,
            BatchEntryRow.problem,
            RunRow.problem.label("failure"),
        )
        query = (
            select(*columns, *outcome)
            .outerjoin(RunRow, RunRow.id == BatchEntryRow.run_id)
            .where(BatchEntryRow.batch_id == batch_id)
            .order_by(BatchEntryRow.number)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return tuple(
            StoredBatchEntry(
                number=row.number,
                graph_id=row.graph_id,
                mesh_name=row.mesh_name,
                seed=row.seed,
                run_id=row.run_id,
                status=row.status,
                problem=row.problem or row.failure,
            )
            for row in rows
        )
