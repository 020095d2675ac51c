"""`/v1/executions`: plans that are, were or will be run on the device simulator."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fastapi import APIRouter, Response
from starlette.responses import JSONResponse

from service.api.context import Parts, json_file, problems
from service.api.idempotency import REPLAYED, Key, idempotency
from service.api.models import AcceptedAnswer, ExecutionAnswer, ExecutionBody
from service.api.problems import Problem
from service.store import StoredExecution

router = APIRouter(prefix="/v1", tags=["executions"])


@router.post(
    "/plans/{plan_id}/executions",
    status_code=202,
    response_model=AcceptedAnswer,
    responses=problems(400, 404, 409, 413, 415, 422, 429),
)
def post_execution(
    plan_id: str, body: ExecutionBody, response: Response, parts: Parts, key: Key = None
) -> dict[str, Any]:
    """Ask for a plan to be run on the simulator; a worker does it."""
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
    if submitted.is_replay:
        response.headers[REPLAYED] = "true"
    execution = parts.store.executions.get(submitted.id)
    links = _links(execution)
    response.headers["Location"] = links["self"]
    return {"id": execution.id, "status": execution.status, "links": links}


@router.get("/executions/{execution_id}", response_model=ExecutionAnswer, responses=problems(404))
def get_execution(execution_id: str, parts: Parts) -> dict[str, Any]:
    """How an execution stands; with its end, what was counted beside what was predicted."""
    return execution_document(parts.store.executions.get(execution_id))


@router.get(
    "/executions/{execution_id}/trace",
    responses=json_file("A trace for Perfetto") | problems(404, 409),
    response_class=Response,
)
def get_trace(execution_id: str, parts: Parts) -> Response:
    """What happened when on which device, for Perfetto or Chrome's tracing."""
    trace = parts.store.executions.trace(execution_id)
    if trace is None:
        status = parts.store.executions.get(execution_id).status
        raise Problem(409, "no_trace", f"execution {execution_id} is {status} and has no trace")
    name = f'attachment; filename="{execution_id}.trace.json"'
    return JSONResponse(trace, headers={"Content-Disposition": name})


def execution_document(execution: StoredExecution) -> dict[str, Any]:
    """An execution as JSON."""
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
