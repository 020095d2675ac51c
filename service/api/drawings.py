"""`/v1/graphs/{id}/drawing` and `/v1/plans/{id}/drawing`: columns of blocks, edges and groups, for diagrams."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from tapestry.service.api import drawing_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Parts
from tapestry.service.api.openapi_parts import GraphId, PlanId, json_answer, problems

router = APIRouter(prefix="/v1", tags=["graphs"])

EXAMPLE: dict[str, Any] = {
    "name": "relu",
    "operators": ["source", "cell maximum", "sink"],
    "types": ["float32[8, 16]"],
    "blocks": {
        "site": ["x", "h", "y"],
        "operator": [0, 1, 2],
        "kind": ["input", "block", "sink"],
        "type": [0, 0, 0],
        "flops": [0, 128, 0],
        "bytes": [0, 1024, 0],
        "group": [-1, -1, -1],
    },
    "edges": {"from": [0, 1], "to": [1, 2], "bytes": [512, 512]},
    "groups": {"name": [], "parent": []},
}
DRAWING = json_answer("The columns of the drawing", EXAMPLE)


@router.get("/graphs/{graph_id}/drawing", responses=DRAWING | problems(404), response_class=Response)
def get_graph_drawing(graph_id: GraphId, request: Request, parts: Parts) -> Response:
    """Fetch what a diagram of a program needs: its blocks with operators, types and costs, the edges between them, and
    groups of blocks, such as layers, that may be folded into one. Positions are left to who draws it.
    """
    parts.store.graphs.get(graph_id)
    return packed(
        request,
        parts.pool.do(drawing_tasks.draw_graph, graph_id, parts.store.address),
        f"{graph_id}.drawing.json",
    )


@router.get("/plans/{plan_id}/drawing", responses=DRAWING | problems(404), response_class=Response)
def get_plan_drawing(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Fetch what a diagram of the program that a plan shards needs, after the rewrites that the plan made."""
    plan = parts.store.plans.get(plan_id)
    content = parts.pool.do(drawing_tasks.draw_plan, plan.key, parts.store.address)
    return packed(request, content, f"{plan.public_id}.drawing.json")
