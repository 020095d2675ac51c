"""Runs in the store: queued, running, or ended."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Unpack

from sqlalchemy import Connection, Row, delete, exists, insert, null, or_, select, update

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer.run.options import AUTO
from tapestry.service.lifecycle import is_ended, next_status
from tapestry.service.scheduling import USUAL, expected_seconds
from tapestry.service.store.codec import graph_values, run_summary, stored_options, stored_plan
from tapestry.service.store.database import StoreError
from tapestry.service.store.finished import put_finished, requested_values
from tapestry.service.store.queue import QueueLimits, append_status, revise, submit
from tapestry.service.store.records import (
    FinishedRun,
    Idempotency,
    Kin,
    RunEvent,
    RunRequest,
    RunSummary,
    StoredPlan,
    StoredRun,
    Submitted,
)
from tapestry.service.store.run_labels import put_notes, put_tags, used_meshes, used_tags
from tapestry.service.store.run_lists import NEWEST_FIRST, Place, RunFilters, RunOrder, listed
from tapestry.service.store.run_rows import summaries, summary_row
from tapestry.service.store.run_watch import events_of
from tapestry.service.store.sessions import AlreadyEnded, Database, UnknownId
from tapestry.service.store.tables import (
    CheckpointRow,
    GraphRow,
    HistoryRow,
    LeaseRow,
    PlanRow,
    RuleRow,
    RunRow,
)

# So many of the newest related runs are looked at, and so many of the nearest are used.
MOST_RELATED, NEAREST = 100, 2
_SHOWN = (
    PlanRow.key,
    PlanRow.plan_id,
    PlanRow.run_id,
    PlanRow.feasible,
    PlanRow.on_frontier,
    PlanRow.cost,
    PlanRow.cost_model,
    PlanRow.time,
    PlanRow.devices,
    PlanRow.micro_batches,
    PlanRow.recompute,
    PlanRow.offload,
    PlanRow.stages,
    PlanRow.origin,
    PlanRow.move_count,
    PlanRow.verified,
)


class Runs:
    """Searches: their parameters, status and results."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def submit(
        self,
        request: RunRequest,
        created_at: datetime,
        *,
        priority: int = USUAL,
        queue_limits: QueueLimits | None = None,
        idempotency: Idempotency | None = None,
        reusable: Mapping[str, str] | None = None,
    ) -> Submitted:
        """Queue a run; or, with the versions that are `reusable`, return the run that `equal_run` finds.

        Raises:
            QueueFull, KeyReused, UnknownId: too much waits; the key meant another request; no such graph.
        """
        with self._database.writing() as connection:
            return submit_run(
                connection,
                request,
                created_at,
                priority=priority,
                queue_limits=queue_limits,
                idempotency=idempotency,
                reusable=reusable,
            )

    def equal_run(self, request: RunRequest, versions: Mapping[str, str]) -> str | None:
        """Return the newest run that has answered an equal request with these versions; None if there is none.

        It has succeeded without a problem, and its costs are of this version of the cost model. A request that names a
        run to start from is equal to none: that run may have found more since.
        """
        with self._database.reading() as connection:
            return _equal_run(connection, request, versions)

    def save_finished(self, finished: FinishedRun) -> str:
        """Store a search that has ended, with all its results; return the run's id."""
        run_id = secrets.token_hex(6)
        graph = graph_values(
            finished.result.graph, self._database.tenant
        )  # packing takes a while, and others want to write
        with self._database.writing() as connection:
            put_finished(connection, run_id, finished, graph)
            append_status(connection, run_id, finished.ended_at or finished.created_at)
        return run_id

    def get(self, run_id: str) -> RunSummary:
        """Return the summary of a run with its status, by its whole id."""
        with self._database.reading() as connection:
            return run_summary(summary_row(connection, run_id))

    def page(
        self,
        limit: int = 50,
        before: Place | None = None,
        *,
        order: RunOrder = NEWEST_FIRST,
        **chosen: Unpack[RunFilters],
    ) -> tuple[RunSummary, ...]:
        """Return runs in an order; `before` is the place of the last one seen (`RunOrder.place_of`)."""
        with self._database.reading() as connection:
            return listed(connection, chosen, order, limit, before)

    def tags(self) -> dict[str, int]:
        """Return the tags that runs have, each with the number of its runs."""
        with self._database.reading() as connection:
            return used_tags(connection)

    def meshes(self) -> dict[str, int]:
        """Return the names of the meshes of all runs, each with the number of its runs."""
        with self._database.reading() as connection:
            return used_meshes(connection)

    def find(self, reference: str) -> StoredRun:
        """Find the run whose id is, or alone begins with, `reference`, with its plans and their moves."""
        with self._database.reading() as connection:
            row = _only(connection, reference)
            plans = _frontier(
                connection, row.id, stored_options(row.options).objectives, (*_SHOWN, PlanRow.moves)
            )
            return _stored(connection, row, plans)

    def related(self, kin: Kin, mesh: str) -> tuple[str, ...]:
        """Return the succeeded runs that are nearest to a search, the nearest first, each of another program or mesh.

        Those of the same program, if there are any, else those of its family; of these the ones on the same mesh, then
        those of most similar length.
        """
        query = (
            select(RunRow.id, RunRow.graph_id, RunRow.mesh_name, GraphRow.structural_hash, GraphRow.blocks)
            .join(GraphRow, GraphRow.id == RunRow.graph_id)
            .where(or_(GraphRow.structural_hash == kin.structural_hash, GraphRow.family == kin.family))
            .where(RunRow.status == "succeeded", RunRow.problem.is_(null()), RunRow.front > 0)
            .order_by(
                (GraphRow.structural_hash == kin.structural_hash).desc(),
                RunRow.created_at.desc(),
                RunRow.id.desc(),
            )
            .limit(MOST_RELATED)
        )
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        same = [row for row in rows if row.structural_hash == kin.structural_hash]
        distinct = {(row.graph_id, row.mesh_name): row for row in reversed(same or rows)}
        nearest = sorted(
            distinct.values(),
            key=lambda row: (row.mesh_name != mesh, abs(math.log(row.blocks / max(1, kin.blocks)))),
        )
        return tuple(row.id for row in nearest[:NEAREST])

    def details(self, run_id: str) -> StoredRun:
        """Return a run by its whole id, without its plans."""
        with self._database.reading() as connection:
            return _stored(connection, summary_row(connection, run_id), ())

    def request(self, run_id: str) -> RunRequest:
        """Return a run's graph, mesh and options."""
        with self._database.reading() as connection:
            summary = run_summary(summary_row(connection, run_id))
            mesh = connection.scalar(select(RunRow.mesh).where(RunRow.id == run_id))
        return RunRequest(summary.graph_id, mesh or {}, summary.options)

    def frontier(self, run_id: str) -> tuple[StoredPlan, ...]:
        """Return the plans on a run's frontier now, sorted by its first objective, the least first."""
        with self._database.reading() as connection:
            options = connection.scalar(select(RunRow.options).where(RunRow.id == run_id))
            if options is None:
                raise UnknownId(f"there is no run {run_id!r}")
            return _frontier(connection, run_id, stored_options(options).objectives)

    def rules(self, run_id: str) -> dict[str, tuple[int, int]]:
        """Count by rule how often it was applied, and how often that improved the frontier."""
        with self._database.reading() as connection:
            return _rules(connection, run_id)

    def history(self, run_id: str) -> tuple[dict[str, float], ...]:
        """Return a run's frontier size, hypervolume and evaluations over time."""
        with self._database.reading() as connection:
            return _history(connection, run_id)

    def events(self, run_id: str, after: int = 0, limit: int = 500) -> tuple[RunEvent, ...]:
        """Return the events of a run after the event with that number, at most `limit`."""
        with self._database.reading() as connection:
            return events_of(connection, run_id, after, limit)

    def mesh(self, run_id: str) -> Mapping[str, Any]:
        """Return the document of a run's mesh."""
        with self._database.reading() as connection:
            mesh = connection.scalar(select(RunRow.mesh).where(RunRow.id == run_id))
        if mesh is None:
            raise UnknownId(f"there is no run {run_id!r}")
        return dict(mesh)

    def request_cancel(self, run_id: str, now: datetime) -> RunSummary:
        """Request the end of a run: at once if no worker has claimed it, else as soon as its worker notices.

        Raises:
            UnknownId, AlreadyEnded: there is no such run, or it has ended.
        """
        with self._database.writing() as connection:
            lease = (LeaseRow.kind == "run", LeaseRow.subject == run_id)
            summary_row(connection, run_id)
            connection.execute(update(LeaseRow).where(*lease).values(cancel_requested=True))  # takes its turn
            before = summary_row(connection, run_id)
            if is_ended(before.status):
                raise AlreadyEnded(f"run {run_id} has ended ({before.status}); there is nothing to cancel")
            revise(connection, RunRow.id == run_id)
            after = next_status(before.status, "cancel_requested")
            if is_ended(after):
                ended = {"status": after, "phase": "done", "stopped": "cancelled", "ended_at": now}
                connection.execute(update(RunRow).where(RunRow.id == run_id).values(ended))
                connection.execute(delete(LeaseRow).where(*lease))
                connection.execute(delete(CheckpointRow).where(CheckpointRow.run_id == run_id))
                append_status(connection, run_id, now)
            return run_summary(summary_row(connection, run_id))

    def change(
        self,
        run_id: str,
        *,
        priority: int | None = None,
        tags: Sequence[str] | None = None,
        notes: str | None = None,
    ) -> RunSummary:
        """Change what is given of a run, all of it or nothing; tags and notes replace those before.

        Of waiting runs the one of the highest priority goes first.

        Raises:
            UnknownId, AlreadyEnded: there is no such run, or it has ended and waits for nothing any more.
        """
        with self._database.writing() as connection:
            revise(connection, RunRow.id == run_id)
            run = summary_row(connection, run_id)
            if priority is not None:
                lease = (LeaseRow.kind == "run", LeaseRow.subject == run_id)
                changed = connection.execute(update(LeaseRow).where(*lease).values(priority=priority))
                if not changed.rowcount:
                    raise AlreadyEnded(
                        f"run {run_id} has ended ({run.status}); it waits for nothing any more"
                    )
            if tags is not None:
                put_tags(connection, run_id, tags)
            if notes is not None:
                put_notes(connection, run_id, notes)
            return run_summary(summary_row(connection, run_id))


def submit_run(
    connection: Connection,
    request: RunRequest,
    created_at: datetime,
    *,
    priority: int,
    place: int = 0,
    queue_limits: QueueLimits | None,
    idempotency: Idempotency | None,
    reusable: Mapping[str, str] | None,
) -> Submitted:
    """Queue a run within a transaction, or find an equal one, as `Runs.submit` does."""
    run_id = secrets.token_hex(6)
    equal = None if reusable is None else _equal_run(connection, request, reusable)

    def write() -> None:
        graph = select(GraphRow.id).where(GraphRow.id == request.graph_id).with_for_update(read=True)
        if connection.scalar(graph) is None:
            raise UnknownId(f"there is no graph {request.graph_id!r}")
        connection.execute(insert(RunRow).values(requested_values(run_id, request, created_at)))
        append_status(connection, run_id, created_at)

    return submit(
        connection,
        "run",
        run_id,
        created_at,
        write,
        priority=priority,
        place=place,
        expected_s=expected_seconds(request.options),
        queue_limits=queue_limits,
        idempotency=idempotency,
        reused=equal,
    )


def _equal_run(connection: Connection, request: RunRequest, versions: Mapping[str, str]) -> str | None:
    if request.options.start_from not in (None, AUTO):
        return None
    outdated = exists().where(
        PlanRow.run_id == RunRow.id,
        PlanRow.on_frontier.is_(True),
        PlanRow.cost_model != COST_MODEL_VERSION,
    )
    answered = (RunRow.request_hash == request.hash, RunRow.status == "succeeded", RunRow.problem.is_(null()))
    query = select(RunRow.id, RunRow.versions).where(*answered, ~outdated)
    found = connection.execute(query.order_by(RunRow.created_at.desc(), RunRow.id.desc()))
    return next((row.id for row in found if row.versions == dict(versions)), None)


def _stored(connection: Connection, row: Row[Any], plans: tuple[StoredPlan, ...]) -> StoredRun:
    columns = (RunRow.mesh, RunRow.timings, RunRow.refused, RunRow.bounds, RunRow.expected, RunRow.versions)
    more = connection.execute(select(*columns, RunRow.host).where(RunRow.id == row.id)).one()
    return StoredRun(
        summary=run_summary(row),
        mesh=more.mesh,
        frontier=plans,
        timings=more.timings,
        rules=_rules(connection, row.id),
        refused=more.refused,
        bounds=more.bounds,
        expected=more.expected,
        history=_history(connection, row.id),
        versions=more.versions,
        host=more.host,
    )


def _only(connection: Connection, reference: str) -> Row[Any]:
    """Return the only run that a reference names: three rows are enough to see that it names several."""
    query = summaries().where(RunRow.id.startswith(reference, autoescape=True)).order_by(RunRow.id).limit(3)
    found = connection.execute(query).all() if reference else []
    exact = [row for row in found if row.id == reference]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise UnknownId(f"there is no run {reference!r}; `tapestry show` lists the runs")
    raise StoreError(f"run {reference!r} is not one run; it may be {', '.join(row.id for row in found)}")


def _frontier(
    connection: Connection, run_id: str, objectives: Sequence[str], columns: Sequence[Any] = _SHOWN
) -> tuple[StoredPlan, ...]:
    query = select(*columns).where(PlanRow.run_id == run_id, PlanRow.on_frontier.is_(True))
    plans = [stored_plan(row) for row in connection.execute(query)]
    return tuple(sorted(plans, key=lambda plan: (*(plan.cost[name] for name in objectives), plan.id)))


def _rules(connection: Connection, run_id: str) -> dict[str, tuple[int, int]]:
    query = select(RuleRow.rule, RuleRow.applied, RuleRow.improved).where(RuleRow.run_id == run_id)
    return {row.rule: (row.applied, row.improved) for row in connection.execute(query.order_by(RuleRow.rule))}


def _history(connection: Connection, run_id: str) -> tuple[dict[str, float], ...]:
    columns = (HistoryRow.seconds, HistoryRow.evaluations, HistoryRow.front, HistoryRow.hypervolume)
    query = select(*columns).where(HistoryRow.run_id == run_id).order_by(HistoryRow.step)
    return tuple(dict(row._mapping) for row in connection.execute(query))
