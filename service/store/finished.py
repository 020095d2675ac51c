"""The rows of a run: as requested, and as the command line stores one that has ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert

from tapestry.service.proven_bounds import bound_documents
from tapestry.service.refusals import refusal_documents
from tapestry.service.store.codec import mesh_to_document, plan_values
from tapestry.service.store.executions import ended_values
from tapestry.service.store.graphs import put_graph
from tapestry.service.store.highlights import best_values, trend_of
from tapestry.service.store.learning import put_rates
from tapestry.service.store.records import FinishedRun, RunRequest
from tapestry.service.store.tables import ExecutionRow, HistoryRow, PlanRow, RuleRow, RunRow
from tapestry.service.verdicts import problem_of

STATUS = {"interrupted": "cancelled", "cancelled": "cancelled"}


def put_finished(
    connection: Connection, run_id: str, finished: FinishedRun, graph: Mapping[str, Any]
) -> None:
    """Write a search that has ended, with all its results; `graph` are the columns that follow from its graph."""
    put_graph(connection, graph, finished.created_at)
    connection.execute(insert(RunRow).values(_finished(run_id, graph["id"], finished)))
    _put_plans(connection, run_id, finished)
    _put_statistics(connection, run_id, finished)
    put_rates(connection, run_id, finished.result.rates, finished.ended_at or finished.created_at)


def requested_values(run_id: str, request: RunRequest, created_at: datetime) -> dict[str, Any]:
    """Build the row of a run that waits."""
    return {
        "id": run_id,
        "graph_id": request.graph_id,
        "mesh_name": request.mesh["name"],
        "mesh": dict(request.mesh),
        "options": request.options.to_stored(),
        "request_hash": request.hash,
        "status": "queued",
        "phase": "queued",
        "stopped": "",
        "attempt": 0,
        "problem": None,
        "evaluations": 0,
        "seconds": 0.0,
        "front": 0,
        "hypervolume": 0.0,
        **best_values((), ()),
        "trend": [],
        "timings": {},
        "refused": [],
        "bounds": {},
        "expected": {},
        "versions": {},
        "host": {},
        "last_event": 0,
        "revision": 0,
        "created_at": created_at,
        "started_at": None,
        "ended_at": None,
    }


def _finished(run_id: str, graph_id: str, finished: FinishedRun) -> dict[str, Any]:
    result = finished.result
    request = RunRequest(graph_id, mesh_to_document(result.mesh), finished.options)
    last = result.history[-1] if result.history else None
    return requested_values(run_id, request, finished.created_at) | {
        "options": replace(
            finished.options, islands=result.islands, prior=finished.prior, start_from=finished.started_from
        ).to_stored(),
        "status": STATUS.get(result.stopped, "succeeded"),
        "phase": "done",
        "stopped": result.stopped,
        "attempt": 1,
        "evaluations": result.evaluations,
        "seconds": result.seconds,
        "front": len(result.frontier),
        "hypervolume": last.hypervolume if last else 0.0,
        **best_values([plan.cost for plan in result.frontier], finished.options.objectives),
        "trend": trend_of((report.seconds, report.hypervolume) for report in result.history),
        "timings": dict(result.timings),
        "refused": refusal_documents(result.refused),
        "bounds": bound_documents(result.bounds),
        "expected": dict(result.expected),
        "versions": dict(finished.versions),
        "host": dict(finished.host),
        "problem": problem_of(
            {plan.id: finished.verified.get(plan.id) for plan in result.frontier}, result.stopped
        ),
        "started_at": finished.created_at,
        "ended_at": finished.ended_at,
    }


def _put_plans(connection: Connection, run_id: str, finished: FinishedRun) -> None:
    for plan in finished.result.frontier:
        verified = finished.verified.get(plan.id)
        values = plan_values(run_id, plan) | {"verified": None if verified is None else dict(verified)}
        key = connection.execute(insert(PlanRow).values(values).returning(PlanRow.key)).scalar_one()
        if plan.id in finished.executions:
            connection.execute(insert(ExecutionRow).values(ended_values(key, finished.executions[plan.id])))


def _put_statistics(connection: Connection, run_id: str, finished: FinishedRun) -> None:
    rules = [
        {"run_id": run_id, "rule": rule, "applied": applied, "improved": improved}
        for rule, (applied, improved) in finished.result.rules.items()
    ]
    history = [
        {
            "run_id": run_id,
            "step": number,
            "seconds": report.seconds,
            "evaluations": report.evaluations,
            "front": report.front,
            "hypervolume": report.hypervolume,
        }
        for number, report in enumerate(finished.result.history)
    ]
    if rules:
        connection.execute(insert(RuleRow), rules)
    if history:
        connection.execute(insert(HistoryRow), history)
