"""Every query of the store, named, with one line of purpose. Nobody else writes SQL."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Insert, Select, Update, and_, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import contains_eager, selectinload, undefer

from service.store.tables import (
    ExecutionRow,
    FrontierRow,
    GraphRow,
    HistoryRow,
    PlanRow,
    RuleRow,
    RunRow,
    SchemaVersion,
)


def schema_version() -> Select[int]:
    """The version of the tables in this database."""
    return select(SchemaVersion.version)


def insert_graph(dialect: str, values: dict[str, object]) -> Insert:
    """A graph, unless it is there already."""
    if dialect == "postgresql":
        return postgresql.insert(GraphRow).values(values).on_conflict_do_nothing()
    return sqlite.insert(GraphRow).values(values).on_conflict_do_nothing()


def mark_given(graph_id: str) -> Update:
    """Note that people handed this graph in, even if rewriting made it first."""
    return update(GraphRow).where(GraphRow.id == graph_id, GraphRow.is_given.is_(False)).values(is_given=True)


def graph_with_document(graph_id: str) -> Select[GraphRow]:
    """One graph with its document."""
    return select(GraphRow).where(GraphRow.id == graph_id).options(undefer(GraphRow.document))


def given_graphs(limit: int, before: tuple[datetime, str] | None) -> Select[GraphRow]:
    """Graphs that people handed in, newest first, after a cursor."""
    query = select(GraphRow).where(GraphRow.is_given.is_(True))
    if before is not None:
        query = query.where(
            or_(
                GraphRow.created_at < before[0],
                and_(GraphRow.created_at == before[0], GraphRow.id < before[1]),
            )
        )
    return query.order_by(GraphRow.created_at.desc(), GraphRow.id.desc()).limit(limit)


def runs_by_prefix(prefix: str) -> Select[RunRow]:
    """Runs whose id begins so; three at most, enough to see that it is not one."""
    return (
        select(RunRow)
        .join(RunRow.graph)
        .options(contains_eager(RunRow.graph))
        .where(starts_with(RunRow.id, prefix))
        .order_by(RunRow.id)
        .limit(3)
    )


def newest_runs(limit: int, before: tuple[datetime, str] | None) -> Select[RunRow]:
    """Runs with their graphs, newest first, after a cursor."""
    query = select(RunRow).join(RunRow.graph).options(contains_eager(RunRow.graph))
    if before is not None:
        query = query.where(
            or_(RunRow.created_at < before[0], and_(RunRow.created_at == before[0], RunRow.id < before[1]))
        )
    return query.order_by(RunRow.created_at.desc(), RunRow.id.desc()).limit(limit)


def frontier_of(run_id: str) -> Select[PlanRow]:
    """The plans on a run's frontier, in order, with their costs."""
    return (
        select(PlanRow)
        .join(FrontierRow, FrontierRow.plan_key == PlanRow.key)
        .where(FrontierRow.run_id == run_id)
        .options(selectinload(PlanRow.costs))
        .order_by(FrontierRow.position)
    )


def plans_by_prefix(prefix: str, run_id: str | None) -> Select[PlanRow]:
    """Plans whose id begins so, of one run or of all, those of the newest run first."""
    query = (
        select(PlanRow)
        .join(RunRow, RunRow.id == PlanRow.run_id)
        .where(starts_with(PlanRow.plan_id, prefix))
        .options(selectinload(PlanRow.costs))
        .order_by(RunRow.created_at.desc(), RunRow.id.desc(), PlanRow.key)
    )
    return query if run_id is None else query.where(PlanRow.run_id == run_id)


def plan_with_placements(key: int) -> Select[PlanRow]:
    """One plan with its placements."""
    return select(PlanRow).where(PlanRow.key == key).options(undefer(PlanRow.placements))


def rules_of(run_id: str) -> Select[RuleRow]:
    """What became of each rule in a run."""
    return select(RuleRow).where(RuleRow.run_id == run_id).order_by(RuleRow.rule)


def history_of(run_id: str) -> Select[HistoryRow]:
    """A run's hypervolume over time."""
    return select(HistoryRow).where(HistoryRow.run_id == run_id).order_by(HistoryRow.step)


def executions_of(plan_key: int) -> Select[ExecutionRow]:
    """The executions of a plan, oldest first, with their traces."""
    return (
        select(ExecutionRow)
        .where(ExecutionRow.plan_key == plan_key)
        .options(undefer(ExecutionRow.trace))
        .order_by(ExecutionRow.key)
    )


def starts_with(column: object, prefix: str) -> ColumnElement[bool]:
    """Whether a text column begins with exactly this."""
    matches: ColumnElement[bool] = column.startswith(prefix, autoescape=True)  # type: ignore[attr-defined]
    return matches
