"""`/v1/graphs/{id}/changes` and `/v1/plans/{id}/changes`: a program before and after rewriting, side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from tapestry.service.api import drawing_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Parts
from tapestry.service.api.drawing_tasks import DrawnChanges
from tapestry.service.api.drawings import EXAMPLE
from tapestry.service.api.openapi_parts import PRINTABLE, GraphId, PlanId, Printable, json_answer, problems
from tapestry.service.api.problems import Problem
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1", tags=["graphs"])

CHANGES: dict[str, Any] = {
    "before": EXAMPLE,
    "after": EXAMPLE,
    "blocks": {
        "before": [0, 1, 2],
        "after": [0, 1, 2],
        "change": ["kept", "changed", "kept"],
        "what": [[], ["operator"], []],
        "attributes": [[], [], []],
        "rules": [[], [0], []],
        "group": [-1, -1, -1],
    },
    "groups": {"name": [], "parent": []},
    "rules": ["relu_of_maximum"],
    "moves": 1,
    "counts": {"kept": 2, "changed": 1, "removed": 0, "made": 0},
}
ANSWER = json_answer("Both programs and what they have in common", CHANGES)


@router.get("/graphs/{graph_id}/changes", responses=ANSWER | problems(404, 422), response_class=Response)
def get_graph_changes(
    graph_id: GraphId,
    request: Request,
    parts: Parts,
    source: Annotated[
        str | None,
        Query(
            max_length=64,
            json_schema_extra=dict(PRINTABLE),
            description="the program from which it was made; by default that of the newest rewriting",
        ),
        Printable,
    ] = None,
) -> Response:
    """Compare a program that was made by rewriting with the one from which it was made: the drawings of both, and
    which blocks are the same, by the moves between the two.
    """
    parts.store.graphs.get(graph_id)
    known = parts.store.graphs.rewritings(graph_id)
    chosen = [made for made in known if source in (None, made.source_id)]
    if not chosen:
        message = f"the program {graph_id} was not made from another one here"
        if known:
            message = f"the program {graph_id} was not made from {source!r}"
        ids = tuple(made.source_id for made in known)
        raise Problem(404, "unknown_id", message, (Fault("#query/source", message, ids),))
    made = chosen[-1]
    parts.store.graphs.get(made.source_id)
    moves = [dict(move) for move in made.moves]
    drawn = parts.pool.do(
        drawing_tasks.draw_changes_of_graph, made.source_id, moves, graph_id, parts.store.address
    )
    return _answer(request, drawn, f"{graph_id}.changes.json")


@router.get("/plans/{plan_id}/changes", responses=ANSWER | problems(404, 422), response_class=Response)
def get_plan_changes(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Compare the program that a plan shards with the one for which the run was requested: the drawings of both, and
    which blocks are the same, by the plan's moves.
    """
    plan = parts.store.plans.get(plan_id)
    drawn = parts.pool.do(drawing_tasks.draw_changes_of_plan, plan.public_id, parts.store.address)
    return _answer(request, drawn, f"{plan.public_id}.changes.json")


def _answer(request: Request, drawn: DrawnChanges, name: str) -> Response:
    if drawn.refusal:
        raise Problem(422, "stale_history", drawn.refusal)
    return packed(request, drawn.content, name)
