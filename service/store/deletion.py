"""Deletion: a row goes with all that belongs to it, and nothing goes that others need.

Plans, events, executions and everything else of a run are deleted with it by the database itself. What is still being
worked on stays, and so does what is named by a batch, by a run that waits to start from it, or as the source of another
program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, LargeBinary, Text, cast, delete, exists, func, select, type_coerce

from tapestry.service.lifecycle import is_ended
from tapestry.service.store.codec import stored_options
from tapestry.service.store.records import StoredSize
from tapestry.service.store.sessions import Database, InUse, UnknownId
from tapestry.service.store.tables import (
    ArtifactRow,
    BatchEntryRow,
    BatchRow,
    CheckpointRow,
    EventRow,
    ExecutionRow,
    ExecutionTensorRow,
    GraphRow,
    IdempotencyRow,
    PlanRow,
    RewriteRow,
    RunRow,
    UploadRow,
)


class Deletions:
    """Finds what may be deleted, and how large it is, and deletes it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def run(self, run_id: str) -> None:
        """Delete a run that has ended, with its plans and their executions.

        Raises:
            InUse: it has not ended, an execution of its plans has not, or a batch or a waiting run names it.
            UnknownId: there is no such run.
        """
        with self._database.writing() as connection:
            _delete_run(connection, run_id)

    def batch(self, batch_id: str, *, with_runs: bool = False) -> None:
        """Delete a batch, and `with_runs` those of its runs that no other batch names: all of it or nothing.

        Raises:
            InUse: a run that is to be deleted cannot be.
            UnknownId: there is no such batch.
        """
        with self._database.writing() as connection:
            named = select(BatchEntryRow.run_id).where(BatchEntryRow.batch_id == batch_id).distinct()
            runs = [run for run in connection.scalars(named) if run is not None]
            if connection.execute(delete(BatchRow).where(BatchRow.id == batch_id)).rowcount == 0:
                raise UnknownId(f"there is no batch {batch_id!r}")
            _forget_keys(connection, [batch_id])
            for run_id in runs if with_runs else ():
                if _batch_of(connection, run_id) is None:
                    _delete_run(connection, run_id)

    def execution(self, execution_id: str) -> None:
        """Delete an execution that has ended.

        Raises:
            InUse, UnknownId: it has not ended; there is none.
        """
        with self._database.writing() as connection:
            status = connection.scalar(select(ExecutionRow.status).where(ExecutionRow.id == execution_id))
            if status is None:
                raise UnknownId(f"there is no execution {execution_id!r}")
            if not is_ended(status):
                raise InUse(f"execution {execution_id} is {status}; it can be deleted once it has ended")
            connection.execute(delete(ExecutionRow).where(ExecutionRow.id == execution_id))
            _forget_keys(connection, [execution_id])

    def graph(self, graph_id: str) -> None:
        """Delete a graph, with what is known of files that were read as it.

        Raises:
            InUse: a run or batch is of it, or another graph was made from it.
            UnknownId: there is no such graph.
        """
        with self._database.writing() as connection:
            found = select(GraphRow.id).where(GraphRow.id == graph_id).with_for_update()
            if connection.scalar(found) is None:
                raise UnknownId(f"there is no graph {graph_id!r}")
            for what, column, wanted in (
                ("run", RunRow.id, RunRow.graph_id),
                ("batch", BatchEntryRow.batch_id, BatchEntryRow.graph_id),
                ("graph", RewriteRow.graph_id, RewriteRow.source_id),
            ):
                user = connection.scalar(select(column).where(wanted == graph_id).limit(1))
                if user is not None:
                    raise InUse(f"graph {graph_id} is needed by {what} {user}, which must be deleted first")
            connection.execute(delete(UploadRow).where(UploadRow.graph_id == graph_id))
            connection.execute(delete(RewriteRow).where(RewriteRow.graph_id == graph_id))
            connection.execute(delete(GraphRow).where(GraphRow.id == graph_id))

    def ended_runs(self, sizes: Mapping[str, int]) -> tuple[StoredSize, ...]:
        """Return the ended runs that no batch names, the oldest first, with their `run_sizes`."""
        named = exists().where(BatchEntryRow.run_id == RunRow.id)
        query = select(RunRow.id, RunRow.ended_at).where(RunRow.ended_at.is_not(None), ~named)
        with self._database.reading() as connection:
            rows = connection.execute(query.order_by(RunRow.ended_at, RunRow.id)).all()
        return tuple(StoredSize(row.id, row.ended_at, sizes.get(row.id, 0)) for row in rows)

    def ended_batches(self, sizes: Mapping[str, int]) -> tuple[StoredSize, ...]:
        """Return the batches all of whose runs have ended, the oldest first.

        Their sizes are the `run_sizes` of the runs that go with them if they are deleted in this order.
        """
        entries = select(BatchEntryRow.batch_id, BatchEntryRow.run_id, RunRow.ended_at).outerjoin(
            RunRow, RunRow.id == BatchEntryRow.run_id
        )
        with self._database.reading() as connection:
            batches = {
                row.id: row.created_at for row in connection.execute(select(BatchRow.id, BatchRow.created_at))
            }
            rows = connection.execute(entries).all()
        live = {row.batch_id for row in rows if row.run_id is not None and row.ended_at is None}
        last = dict(batches)
        runs: dict[str, set[str]] = {batch: set() for batch in batches}
        for row in rows:
            if row.ended_at is not None:
                last[row.batch_id] = max(last[row.batch_id], row.ended_at)
                runs[row.batch_id].add(row.run_id)
        found, named = list[StoredSize](), set[str]().union(*(runs[batch] for batch in live))
        for batch in sorted(batches.keys() - live, key=lambda batch: (last[batch], batch), reverse=True):
            own = runs[batch] - named  # a run goes with the last batch that names it
            found.append(StoredSize(batch, last[batch], sum(sizes.get(run, 0) for run in own)))
            named |= own
        return tuple(reversed(found))

    def unused_graphs(self) -> tuple[StoredSize, ...]:
        """Return the graphs that nothing needs, the oldest first, with the sizes of their documents."""
        users = (
            exists().where(RunRow.graph_id == GraphRow.id),
            exists().where(BatchEntryRow.graph_id == GraphRow.id),
            exists().where(RewriteRow.source_id == GraphRow.id),
        )
        query = select(GraphRow.id, GraphRow.created_at, func.length(GraphRow.document))
        with self._database.reading() as connection:
            rows = connection.execute(query.where(*(~used for used in users)).order_by(GraphRow.created_at))
            return tuple(StoredSize(*row) for row in rows)

    def run_sizes(self) -> dict[str, int]:
        """Count the bytes of each run, as they are stored; tables and indices take more."""
        with self._database.reading() as connection:
            return run_sizes(connection)

    def compact(self) -> None:
        """Return the space of what was deleted to the disk; on PostgreSQL it is used again without that."""
        if self._database.dialect == "sqlite":
            self._database.vacuum()


def _delete_run(connection: Connection, run_id: str) -> None:
    run = connection.execute(select(RunRow.status).where(RunRow.id == run_id).with_for_update()).one_or_none()
    if run is None:
        raise UnknownId(f"there is no run {run_id!r}")
    batch = _batch_of(connection, run_id)
    if batch is not None:
        raise InUse(f"run {run_id} belongs to batch {batch}; delete that, with its runs")
    if not is_ended(run.status):
        raise InUse(f"run {run_id} is {run.status}; cancel it first")
    executions = select(ExecutionRow.id, ExecutionRow.status).join(
        PlanRow, PlanRow.key == ExecutionRow.plan_key
    )
    found = connection.execute(executions.where(PlanRow.run_id == run_id)).all()
    for row in found:
        if not is_ended(row.status):
            raise InUse(f"execution {row.id} of a plan of run {run_id} is {row.status}")
    waiting = select(RunRow.id, RunRow.options).where(RunRow.status.in_(("queued", "running")))
    for row in connection.execute(waiting):
        named = (stored_options(row.options).start_from or "").split(",")
        if any(run_id.startswith(name.strip()) for name in named if name.strip()):
            raise InUse(f"run {row.id}, which has not ended, starts from run {run_id}")
    connection.execute(delete(RunRow).where(RunRow.id == run_id))
    _forget_keys(connection, [run_id, *(row.id for row in found)])


def _batch_of(connection: Connection, run_id: str) -> str | None:
    """Return a batch that names a run; None if none does."""
    return connection.scalar(select(BatchEntryRow.batch_id).where(BatchEntryRow.run_id == run_id).limit(1))


def _forget_keys(connection: Connection, subjects: Iterable[str]) -> None:
    """Delete the keys under which deleted jobs were asked for: who repeats the request gets a new job."""
    connection.execute(delete(IdempotencyRow).where(IdempotencyRow.subject.in_(list(subjects))))


def run_sizes(connection: Connection) -> dict[str, int]:
    """Add up the bytes of what is large of each run: mesh, checkpoint, plans, events, what was rendered, values."""
    of_plan = PlanRow.key == ArtifactRow.plan_key
    of_execution = PlanRow.key == ExecutionRow.plan_key
    queries: Sequence[Any] = (
        select(RunRow.id, func.sum(func.length(cast(RunRow.mesh, Text)))),
        select(CheckpointRow.run_id, func.sum(func.length(CheckpointRow.saved))),
        select(PlanRow.run_id, func.sum(_length(PlanRow.placements) + _length(PlanRow.moves))),
        select(EventRow.run_id, func.sum(func.length(cast(EventRow.data, Text)))),
        select(PlanRow.run_id, func.sum(func.length(ArtifactRow.content))).join(ArtifactRow, of_plan),
        select(PlanRow.run_id, func.sum(func.coalesce(_length(ExecutionRow.trace), 0))).join(
            ExecutionRow, of_execution
        ),
        select(PlanRow.run_id, func.sum(func.length(ExecutionTensorRow.content)))
        .join(ExecutionRow, of_execution)
        .join(ExecutionTensorRow, ExecutionTensorRow.execution_id == ExecutionRow.id),
    )
    found: dict[str, int] = {}
    for query in queries:
        (run_id, _) = query.selected_columns
        for run, size in connection.execute(query.group_by(run_id)):
            found[run] = found.get(run, 0) + int(size or 0)
    return found


def _length(column: Any) -> Any:
    """Return the length of a compressed value in bytes."""
    return func.length(type_coerce(column, LargeBinary))
