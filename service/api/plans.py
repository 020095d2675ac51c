"""`/v1/plans`: what a plan decides, how it came about, and its forms for others."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from service.api import tasks
from service.api.context import Context, Parts, json_file, problems
from service.api.executions import execution_document
from service.api.graphs import gzipped
from service.api.models import MovesAnswer, PlanDetailAnswer
from service.api.problems import Problem
from service.presentation import shown_plan_document
from service.requests import Fault
from service.store import StoredPlan

router = APIRouter(prefix="/v1/plans", tags=["plans"])

FORMATS = ("teg", "moves")
ANSWERS = json_file("A TEG document")


@router.get("/{plan_id}", response_model=PlanDetailAnswer, responses=problems(404))
def get_plan(plan_id: str, parts: Parts) -> dict[str, Any]:
    """A plan with its costs, decisions, history and executions."""
    plan = parts.store.plans.get(plan_id)
    run = parts.store.runs.get(plan.run_id)
    executions = parts.store.executions.of_plan(plan.key)
    path = f"/v1/plans/{plan.public_id}"
    return shown_plan_document(plan) | {
        "run": plan.run_id,
        "graph_id": run.graph_id,
        "mesh": run.mesh_name,
        "objectives": list(run.objectives),
        "on_frontier": plan.on_frontier,
        "moves": [dict(move) for move in plan.moves],
        "placements": dict(plan.placements or {}),
        "executions": [execution_document(execution) for execution in executions],
        "links": {
            "self": path,
            "graph": f"{path}/graph",
            "moves": f"{path}/moves",
            "executions": f"{path}/executions",
            "run": f"/v1/runs/{plan.run_id}",
            "page": f"/plans/{plan.public_id}",
        },
    }


@router.get("/{plan_id}/moves", response_model=MovesAnswer, responses=problems(404))
def get_moves(plan_id: str, parts: Parts) -> dict[str, Any]:
    """The history of a plan: replayed from the run's graph, it leads to the plan."""
    return {"moves": [dict(move) for move in parts.store.plans.get(plan_id).moves]}


@router.get("/{plan_id}/graph", responses=ANSWERS | problems(404, 422), response_class=Response)
def get_graph(plan_id: str, request: Request, parts: Parts) -> Response:
    """The plan's explicit graph: every block with its index range, pinned to its device."""
    return _explicit(parts.store.plans.get(plan_id), request, parts)


@router.get("/{plan_id}/export", responses=ANSWERS | problems(404, 422), response_class=Response)
def export_plan(
    plan_id: str,
    request: Request,
    parts: Parts,
    to: Annotated[str, Query(max_length=40, description=f"one of {', '.join(FORMATS)}")],
) -> Response:
    """The plan in a form for other programs."""
    plan = parts.store.plans.get(plan_id)
    if to not in FORMATS:
        fault = Fault("#query/to", f"plans are not exported to {to!r}", FORMATS)
        raise Problem(422, "invalid", fault.detail, (fault,))
    if to == "teg":
        return _explicit(plan, request, parts)
    content = json.dumps({"moves": [dict(move) for move in plan.moves]})
    return Response(content, media_type="application/json")


def _explicit(plan: StoredPlan, request: Request, parts: Context) -> Response:
    """The explicit graph: unfolded at the desk the first time, kept from then on."""
    content = parts.store.plans.artifact(plan.key, tasks.EXPLICIT)
    if content is None:
        limit = parts.settings.limits.explicit_nodes
        refusal = parts.desk.do(
            tasks.render_explicit, plan.key, plan.run_id, parts.settings.database_url, limit
        )
        content = parts.store.plans.artifact(plan.key, tasks.EXPLICIT)
        if content is None:
            raise Problem(422, "too_large_to_unfold", refusal)
    return gzipped(content, request, f"{plan.public_id}.teg.json")
