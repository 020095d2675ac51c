"""Rows of runs as lists and pages show them, each with its program's name, its lease, tags and notes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, Select, and_, func, select

from tapestry.service.store.sessions import UnknownId
from tapestry.service.store.tables import GraphRow, LeaseRow, RunNotesRow, RunRow, RunTagRow

_TAGS = (
    select(func.aggregate_strings(RunTagRow.tag, ","))
    .where(RunTagRow.run_id == RunRow.id)
    .correlate(RunRow)
    .scalar_subquery()
    .label("tags")
)
_SUMMARY = (
    RunRow.id,
    RunRow.graph_id,
    GraphRow.name.label("graph_name"),
    RunRow.mesh_name,
    RunRow.options,
    RunRow.status,
    RunRow.phase,
    RunRow.stopped,
    RunRow.attempt,
    LeaseRow.cancel_requested,
    LeaseRow.priority,
    RunRow.problem,
    RunRow.evaluations,
    RunRow.seconds,
    RunRow.front,
    RunRow.hypervolume,
    RunRow.best,
    RunRow.trend,
    _TAGS,
    RunNotesRow.notes,
    RunRow.created_at,
    RunRow.started_at,
    RunRow.ended_at,
)


def summaries() -> Select[Any]:
    """Build the query for the summaries of runs (`codec.run_summary`)."""
    lease = and_(LeaseRow.kind == "run", LeaseRow.subject == RunRow.id)
    query = select(*_SUMMARY).join(GraphRow, GraphRow.id == RunRow.graph_id).outerjoin(LeaseRow, lease)
    return query.outerjoin(RunNotesRow, RunNotesRow.run_id == RunRow.id)


def summary_row(connection: Connection, run_id: str) -> Row[Any]:
    """Return the row of a run's summary.

    Raises:
        UnknownId: there is no such run.
    """
    row = connection.execute(summaries().where(RunRow.id == run_id)).one_or_none()
    if row is None:
        raise UnknownId(f"there is no run {run_id!r}")
    return row
