"""`/v1/executions`: plans that have run, run or will run on the device simulator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Request, Response

from tapestry.service.api.answers import answer, packed, revalidated
from tapestry.service.api.bodies import ExecutionBody
from tapestry.service.api.context import Parts
from tapestry.service.api.idempotency import Key, idempotency, replayed
from tapestry.service.api.limits import body_of
from tapestry.service.api.models import AcceptedAnswer, ExecutionAnswer
from tapestry.service.api.openapi_parts import ACCEPTED, KEPT, ExecutionId, PlanId, json_answer, problems
from tapestry.service.api.problems import Problem
from tapestry.service.store import StoredExecution

router = APIRouter(prefix="/v1", tags=["executions"])

TRACE = {"traceEvents": [{"name": "y", "ph": "X", "ts": 0.0, "dur": 1.5, "pid": 0, "tid": 0}]}


@router.post(
    "/plans/{plan_id}/executions",
    status_code=202,
    response_model=AcceptedAnswer,
    responses=ACCEPTED | problems(404, 413, 415, 422, 429),
    dependencies=[body_of("application/json")],
)
def post_execution(plan_id: PlanId, body: ExecutionBody, parts: Parts, key: Key = None) -> Response:
    """Request a run of a plan on the device simulator; a worker does it."""
    plan = parts.store.plans.get(plan_id)
    submitted = parts.store.executions.submit(
        plan.key,
        backend=body.backend,
        values=body.values,
        seed=body.seed,
        created_at=datetime.now(UTC),
        queue_limit=parts.settings.limits.queued_jobs,
        idempotency=idempotency(key, "POST executions", [plan.public_id, body.model_dump(mode="json")]),
    )
    execution = parts.store.executions.get(submitted.id)
    links = _links(execution)
    headers = {"Location": links["self"]} | replayed(submitted)
    return answer({"id": execution.id, "status": execution.status, "links": links}, 202, headers)


@router.get("/executions/{execution_id}", response_model=ExecutionAnswer, responses=KEPT | problems(404))
def get_execution(execution_id: ExecutionId, request: Request, parts: Parts) -> Response:
    """Show the status of an execution; once it has ended, also the counted values beside the predicted ones."""
    return revalidated(request, execution_document(parts.store.executions.get(execution_id)))


@router.get(
    "/executions/{execution_id}/trace",
    responses=json_answer("A trace for Perfetto", TRACE) | problems(404, 409),
    response_class=Response,
)
def get_trace(execution_id: ExecutionId, request: Request, parts: Parts) -> Response:
    """Fetch the timeline of events on each device, for Perfetto or Chrome's tracing; gzipped where accepted."""
    trace = parts.store.executions.packed_trace(execution_id)
    if trace is None:
        status = parts.store.executions.get(execution_id).status
        raise Problem(409, "no_trace", f"execution {execution_id} is {status} and has no trace")
    return packed(request, trace, f"{execution_id}.trace.json")


def execution_document(execution: StoredExecution) -> dict[str, Any]:
    """Convert an execution to JSON."""
    ended = execution.ended_at
    return {
        "id": execution.id,
        "status": execution.status,
        "plan": execution.public_plan_id,
        "run": execution.run_id,
        "backend": execution.backend,
        "values": execution.values,
        "seed": execution.seed,
        "counts": None if execution.counts is None else dict(execution.counts),
        "verified": None if execution.verified is None else dict(execution.verified),
        "problem": None if execution.problem is None else dict(execution.problem),
        "created_at": execution.created_at.astimezone(UTC).isoformat(),
        "ended_at": None if ended is None else ended.astimezone(UTC).isoformat(),
        "links": _links(execution),
    }


def _links(execution: StoredExecution) -> dict[str, str]:
    path = f"/v1/executions/{execution.id}"
    links = {"self": path, "plan": f"/v1/plans/{execution.public_plan_id}"}
    return links | ({"trace": f"{path}/trace"} if execution.has_trace else {})
