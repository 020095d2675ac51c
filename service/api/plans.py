"""`/v1/plans`: the decisions of a plan, its history, and its export formats."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from tapestry.service.api import tasks
from tapestry.service.api.answers import packed, revalidated
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.executions import execution_document
from tapestry.service.api.graphs import EXAMPLE
from tapestry.service.api.models import ExplanationAnswer, MovesAnswer, PlanDetailAnswer
from tapestry.service.api.openapi_parts import KEPT, Answers, PlanId, json_answer, problems
from tapestry.service.api.problems import Problem
from tapestry.service.presentation import shown_plan_document
from tapestry.service.requests import Fault
from tapestry.service.store import StoredPlan

router = APIRouter(prefix="/v1/plans", tags=["plans"])

FORMATS = ("teg", "placements", "csv", "dot")
EXPLICIT = json_answer("The explicit graph as a TEG document", EXAMPLE)
EXPORTED: Answers = {
    200: {
        "description": "The plan in the form that was asked for",
        "content": {
            "application/json": {"schema": {"type": "object"}, "example": EXAMPLE},
            "text/csv": {"schema": {"type": "string"}, "example": "objective,predicted,counted\r\n"},
            "text/vnd.graphviz": {"schema": {"type": "string"}, "example": 'digraph "two_layers" {}'},
        },
    },
    304: EXPLICIT[304],
}


@router.get("/{plan_id}", response_model=PlanDetailAnswer, responses=KEPT | problems(404))
def get_plan(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Show a plan with its costs, decisions, history and executions."""
    plan = parts.store.plans.get(plan_id)
    run = parts.store.runs.get(plan.run_id)
    executions = parts.store.executions.of_plan(plan.key)
    path = f"/v1/plans/{plan.public_id}"
    document = shown_plan_document(plan) | {
        "run": plan.run_id,
        "graph_id": run.graph_id,
        "mesh": run.mesh_name,
        "objectives": list(run.options.objectives),
        "on_frontier": plan.on_frontier,
        "moves": [dict(move) for move in plan.moves],
        "placements": dict(plan.placements or {}),
        "executions": [execution_document(execution) for execution in executions],
        "links": {
            "self": path,
            "graph": f"{path}/graph",
            "moves": f"{path}/moves",
            "explanation": f"{path}/explanation",
            "executions": f"{path}/executions",
            "run": f"/v1/runs/{plan.run_id}",
            "page": f"/plans/{plan.public_id}",
        },
    }
    return revalidated(request, document)


@router.get("/{plan_id}/moves", response_model=MovesAnswer, responses=KEPT | problems(404))
def get_moves(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Show the moves of a plan: replayed from the run's graph, they lead to it."""
    return revalidated(request, {"moves": [dict(move) for move in parts.store.plans.get(plan_id).moves]})


@router.get(
    "/{plan_id}/explanation", response_model=ExplanationAnswer, responses=KEPT | problems(404, 422, 503)
)
def get_explanation(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Explain a plan: the change of every cost by each of its moves, and the moves that made each of its blocks."""
    plan = parts.store.plans.get(plan_id)
    return packed(request, _explained(plan, parts), f"{plan.public_id}.explanation.json")


@router.get("/{plan_id}/graph", responses=EXPLICIT | problems(404, 422), response_class=Response)
def get_graph(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Fetch a plan's explicit graph: every block with its index range, pinned to its device."""
    plan = parts.store.plans.get(plan_id)
    return packed(request, _explicit(plan, parts), f"{plan.public_id}.teg.json")


@router.get("/{plan_id}/export", responses=EXPORTED | problems(404, 422), response_class=Response)
def export_plan(
    plan_id: PlanId,
    request: Request,
    parts: Parts,
    to: Annotated[
        str,
        Query(
            max_length=40,
            description="teg: the explicit graph; placements: every decision, for tapestry's own tools; "
            "csv: costs and checks; dot: the rewritten graph as a drawing for Graphviz",
            json_schema_extra={"enum": list(FORMATS)},
        ),
    ],
) -> Response:
    """Export a plan in a format for other programs."""
    plan = parts.store.plans.get(plan_id)
    if to not in FORMATS:
        fault = Fault("#query/to", f"plans are not exported to {to!r}", FORMATS)
        raise Problem(422, "invalid", fault.detail, (fault,))
    if to == "teg":
        return packed(request, _explicit(plan, parts), f"{plan.public_id}.teg.json")
    if to == "placements":
        return revalidated(request, dict(plan.placements or {}))
    if to == "dot":
        url = parts.settings.database_url
        return _file(parts.pool.do(tasks.draw, plan.key, url), "text/vnd.graphviz", f"{plan.public_id}.dot")
    return _file(_csv(plan), "text/csv", f"{plan.public_id}.csv")


def _file(content: str, media_type: str, name: str) -> Response:
    headers = {"Cache-Control": "private, no-cache", "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, headers=headers, media_type=media_type)


def _csv(plan: StoredPlan) -> str:
    """Format the name and value of each cost as CSV, counted values beside predicted ones."""
    checked = plan.verified or {}
    counted = {"peak_memory_bytes": "memory", "traffic_bytes": "traffic"}
    lines = ["objective,predicted,counted"]
    for name, value in plan.cost.items():
        figures = checked.get(counted.get(name, ""), {})
        lines.append(f"{name},{value!r},{figures.get('counted', '')}")
    return "\r\n".join([*lines, ""])


def _explained(plan: StoredPlan, parts: Context) -> bytes:
    """Return the explanation of a plan: computed in the task pool the first time, stored from then on."""
    content = parts.store.plans.artifact(plan.key, tasks.EXPLANATION)
    if content is None:
        refusal = parts.pool.do(tasks.render_explanation, plan.public_id, parts.settings.database_url)
        content = parts.store.plans.artifact(plan.key, tasks.EXPLANATION)
        if content is None:
            raise Problem(422, "stale_history", refusal)
    return content


def _explicit(plan: StoredPlan, parts: Context) -> bytes:
    """Return the explicit graph of a plan: expanded in the task pool the first time, stored from then on."""
    content = parts.store.plans.artifact(plan.key, tasks.EXPLICIT)
    if content is None:
        limit = parts.settings.limits.explicit_nodes
        url = parts.settings.database_url
        refusal = parts.pool.do(tasks.render_explicit, plan.key, plan.run_id, url, limit)
        content = parts.store.plans.artifact(plan.key, tasks.EXPLICIT)
        if content is None:
            raise Problem(422, "too_large_to_unfold", refusal)
    return content
