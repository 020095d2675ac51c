"""The store: what was searched, found and checked, kept beyond the process that did it.

Promises. A graph is addressed by its content: stored twice it is one graph. A run is stored whole - with graph,
plans, costs, frontier, statistics, history and executions - or not at all; the same run stored twice is two runs.
What comes out are values that no session follows. A store may be used by several threads and several processes
at once: writers wait for each other, readers for nobody. Every method raises StoreError with one line for the user.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from optimizer import Plan
from service.store import queries
from service.store.codec import (
    cost_rows,
    graph_of,
    graph_summary,
    graph_values,
    mesh_to_document,
    plan_of,
    run_summary,
    stored_plan,
)
from service.store.database import StoreError, open_database, reason, writing
from service.store.records import Execution, FinishedRun, GraphSummary, RunSummary, StoredPlan, StoredRun
from service.store.tables import ExecutionRow, FrontierRow, HistoryRow, PlanRow, RuleRow, RunRow
from teg.graph import Graph
from teg.sharding.text import placements_to_document

STATUS = {"interrupted": "cancelled", "cancelled": "cancelled"}


class Store:
    """A database by its URL; see the module for what it promises. `close()` when done."""

    def __init__(self, url: str) -> None:
        self._engine = open_database(url)

    def close(self) -> None:
        self._engine.dispose()

    def save_graph(self, graph: Graph, created_at: datetime) -> str:
        """Keep a graph that somebody handed in; returns its id, the same for the same graph."""
        with self._writing() as session:
            return _put_graph(session, graph, created_at, is_given=True)

    def load_graph(self, graph_id: str) -> Graph:
        """The graph with this id, as it was stored."""
        with self._reading() as session:
            row = session.scalar(queries.graph_with_document(graph_id))
            if row is None:
                raise StoreError(f"there is no graph {graph_id!r}")
            return graph_of(row)

    def graphs(self, limit: int = 50, before: tuple[datetime, str] | None = None) -> tuple[GraphSummary, ...]:
        """Graphs that people handed in, newest first; `before` is (created_at, id) of the last one seen."""
        with self._reading() as session:
            return tuple(graph_summary(row) for row in session.scalars(queries.given_graphs(limit, before)))

    def save_run(self, finished: FinishedRun) -> str:
        """Keep a search with everything it found; returns the run's id."""
        run_id = secrets.token_hex(6)
        with self._writing() as session:
            graph_id = _put_graph(session, finished.result.graph, finished.created_at, is_given=True)
            session.add(_run_row(run_id, graph_id, finished))
            session.flush()
            _put_plans(session, run_id, finished)
            _put_statistics(session, run_id, finished)
        return run_id

    def run(self, reference: str) -> StoredRun:
        """The run whose id is, or alone begins with, `reference`."""
        with self._reading() as session:
            row = _only(session, reference)
            plans = session.scalars(queries.frontier_of(row.id))
            history = session.scalars(queries.history_of(row.id))
            return StoredRun(
                summary=run_summary(row),
                mesh=row.mesh,
                frontier=tuple(stored_plan(plan) for plan in plans),
                timings=row.timings,
                rules={r.rule: (r.applied, r.improved) for r in session.scalars(queries.rules_of(row.id))},
                pins=row.pins,
                history=tuple(
                    {
                        "seconds": h.seconds,
                        "evaluations": h.evaluations,
                        "front": h.front,
                        "hypervolume": h.hypervolume,
                    }
                    for h in history
                ),
                versions=row.versions,
                host=row.host,
            )

    def runs(self, limit: int = 50, before: tuple[datetime, str] | None = None) -> tuple[RunSummary, ...]:
        """Runs, newest first; `before` is (created_at, id) of the last one seen."""
        with self._reading() as session:
            return tuple(run_summary(row) for row in session.scalars(queries.newest_runs(limit, before)))

    def find_plan(self, reference: str) -> StoredPlan:
        """The plan named `PLAN` (of the newest run that has it) or `RUN/PLAN`; beginnings will do."""
        run_part, _, plan_part = reference.rpartition("/")
        with self._reading() as session:
            run_id = _only(session, run_part).id if run_part else None
            rows = session.scalars(queries.plans_by_prefix(plan_part, run_id)).all() if plan_part else []
            if not rows:
                raise StoreError(f"there is no plan {reference!r}; `tapestry show RUN` lists a run's plans")
            names = {row.plan_id for row in rows}
            if len(names) > 1:
                raise StoreError(f"plan {reference!r} is not one plan; it may be {_some(sorted(names))}")
            return stored_plan(rows[0])

    def load_plan(self, key: int) -> Plan:
        """The plan with this key as the search made it: rewritten graph, placements, moves, cost."""
        with self._reading() as session:
            row = session.scalar(queries.plan_with_placements(key))
            graph = session.scalar(queries.graph_with_document(row.graph_id)) if row is not None else None
            if row is None or graph is None:
                raise StoreError(f"there is no plan with key {key}")
            return plan_of(row, graph_of(graph))

    def save_execution(self, plan_key: int, execution: Execution) -> int:
        """Keep what an execution of a stored plan gave; returns its key."""
        with self._writing() as session:
            row = _execution_row(plan_key, execution)
            session.add(row)
            session.flush()
            return row.key

    def executions(self, plan_key: int) -> tuple[Execution, ...]:
        """The executions of a plan, oldest first."""
        with self._reading() as session:
            rows = session.scalars(queries.executions_of(plan_key))
            return tuple(
                Execution(r.backend, r.seed, r.counts, r.verified, r.created_at, r.trace) for r in rows
            )

    @contextmanager
    def _writing(self) -> Iterator[Session]:
        """One transaction: everything in it is kept, or nothing."""
        try:
            with Session(writing(self._engine)) as session, session.begin():
                yield session
        except SQLAlchemyError as error:
            raise StoreError(f"the database refused to write; nothing was stored: {reason(error)}") from error

    @contextmanager
    def _reading(self) -> Iterator[Session]:
        try:
            with Session(self._engine) as session:
                yield session
        except SQLAlchemyError as error:
            raise StoreError(f"the database cannot be read: {reason(error)}") from error


def _only(session: Session, reference: str) -> RunRow:
    found = session.scalars(queries.runs_by_prefix(reference)).all() if reference else []
    exact = [row for row in found if row.id == reference]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if not found:
        raise StoreError(f"there is no run {reference!r}; `tapestry show` lists the runs")
    raise StoreError(f"run {reference!r} is not one run; it may be {_some([row.id for row in found])}")


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")


def _put_graph(session: Session, graph: Graph, created_at: datetime, is_given: bool) -> str:
    values = graph_values(graph) | {"created_at": created_at, "is_given": is_given}
    graph_id: str = values["id"]
    session.execute(queries.insert_graph(session.connection().dialect.name, values))
    if is_given:
        session.execute(queries.mark_given(graph_id))
    return graph_id


def _run_row(run_id: str, graph_id: str, finished: FinishedRun) -> RunRow:
    result = finished.result
    return RunRow(
        id=run_id,
        graph_id=graph_id,
        mesh_name=result.mesh.name,
        mesh=mesh_to_document(result.mesh),
        objectives=[objective.name for objective in result.objectives],
        constraints=[str(constraint) for constraint in result.constraints],
        rules=list(finished.rules) if finished.rules is not None else None,
        pins=dict(finished.pins),
        compute_dtype=finished.compute_dtype,
        budget_seconds=finished.budget.seconds,
        budget_evaluations=finished.budget.evaluations,
        seed=result.seed,
        islands=result.islands,
        status=STATUS.get(result.stopped, "succeeded"),
        stopped=result.stopped,
        evaluations=result.evaluations,
        seconds=result.seconds,
        timings=dict(result.timings),
        versions=dict(finished.versions),
        host=dict(finished.host),
        created_at=finished.created_at,
    )


def _put_plans(session: Session, run_id: str, finished: FinishedRun) -> None:
    graph_ids: dict[int, str] = {}
    for position, plan in enumerate(finished.result.frontier):
        if id(plan.graph) not in graph_ids:
            graph_ids[id(plan.graph)] = _put_graph(session, plan.graph, finished.created_at, is_given=False)
        verified = finished.verified.get(plan.id)
        row = PlanRow(
            run_id=run_id,
            plan_id=plan.id,
            graph_id=graph_ids[id(plan.graph)],
            feasible=plan.feasible,
            moves=[move.to_json() for move in plan.moves],
            placements=placements_to_document(plan.placements),
            verified=None if verified is None else dict(verified),
            costs=cost_rows(plan),
        )
        session.add(row)
        session.flush()
        session.add(FrontierRow(run_id=run_id, position=position, plan_key=row.key))
        if plan.id in finished.executions:
            session.add(_execution_row(row.key, finished.executions[plan.id]))


def _put_statistics(session: Session, run_id: str, finished: FinishedRun) -> None:
    for rule, (applied, improved) in finished.result.rules.items():
        session.add(RuleRow(run_id=run_id, rule=rule, applied=applied, improved=improved))
    for step, report in enumerate(finished.result.history):
        point: dict[str, Any] = {
            k: v for k, v in asdict(report).items() if k in ("seconds", "evaluations", "front", "hypervolume")
        }
        session.add(HistoryRow(run_id=run_id, step=step, **point))


def _execution_row(plan_key: int, execution: Execution) -> ExecutionRow:
    return ExecutionRow(
        plan_key=plan_key,
        backend=execution.backend,
        seed=execution.seed,
        counts=dict(execution.counts),
        verified=dict(execution.verified),
        trace=None if execution.trace is None else dict(execution.trace),
        created_at=execution.created_at,
    )
