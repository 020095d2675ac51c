"""`/v1/comparisons`: two to four runs, or plans, beside each other."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from tapestry.service.api import comparison_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Parts
from tapestry.service.api.openapi_parts import json_answer, problems
from tapestry.service.api.problems import invalid
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/comparisons", tags=["plans"])

LEAST, MOST = 2, 4
RUNS_EXAMPLE: dict[str, Any] = {
    "objectives": [],
    "notes": [],
    "reference": {"time_s": 1.8e-05},
    "differences": [{"title": "Seed", "values": ["0", "1"]}],
    "runs": [
        {
            "run": "0f4bb7a2c1d9",
            "graph": "two_layers",
            "graph_id": "cce335828c20a0d57a49e48fce077c75",
            "mesh": "dgx-h100",
            "status": "succeeded",
            "created_at": "2026-11-21T12:00:00+00:00",
            "evaluations": 81920,
            "seconds": 2.0,
            "plans": 1,
            "hypervolume": 0.1,
            "best": {"time_s": 1.6e-05},
            "alone": 1,
            "points": [{"plan": "0f4bb7a2c1d9-9a1c03d2e4f5", "cost": {"time_s": 1.6e-05}}],
            "history": [[1.0, 0.05], [2.0, 0.1]],
        }
    ],
}
PLANS_EXAMPLE: dict[str, Any] = {
    "notes": [],
    "plans": [],
    "parameters": [{"title": "devices", "values": ["all", "gpu:4"], "differs": True}],
    "decisions": {
        "blocks": 7,
        "equal": 6,
        "groups": [
            {
                "name": "h.*.y",
                "sites": ["h.0.y", "h.1.y"],
                "values": [{"strategy": "(gpu.0, -, -)"}, {"strategy": "(-, gpu.0, -)"}],
            }
        ],
    },
}
IDS = Query(
    min_length=LEAST,
    max_length=MOST,
    description="an id; two to four, all different",
    json_schema_extra={"uniqueItems": True},
)
RunIds = Annotated[list[Annotated[str, Field(pattern="^[0-9a-f]{12}$")]], IDS]
PlanIds = Annotated[list[Annotated[str, Field(pattern="^([0-9a-f]{12}-)?[0-9a-f]{12,64}$")]], IDS]


@router.get(
    "/runs",
    responses=json_answer("The comparison", RUNS_EXAMPLE) | problems(404, 422),
    response_class=Response,
)
def compare_runs(run: RunIds, request: Request, parts: Parts) -> Response:
    """Compare the frontiers of runs over the objectives that all have: hypervolumes and their growth relative to one
    common point, best values, and what was asked for differently.
    """
    _check_different(run, "run")
    for run_id in run:
        parts.store.runs.get(run_id)
    content = parts.pool.do(comparison_tasks.compare_runs, tuple(run), parts.store.address)
    return packed(request, content, "comparison.json")


@router.get(
    "/plans",
    responses=json_answer("The comparison", PLANS_EXAMPLE) | problems(404, 422),
    response_class=Response,
)
def compare_plans(plan: PlanIds, request: Request, parts: Parts) -> Response:
    """Compare the costs and decisions of plans: block by block, equal layers together. `lead` compares the time of the
    first plan with that of each.
    """
    _check_different(plan, "plan")
    for plan_id in plan:
        parts.store.plans.get(plan_id)
    content = parts.pool.do(comparison_tasks.compare_plans, tuple(plan), parts.store.address)
    return packed(request, content, "comparison.json")


def _check_different(ids: list[str], name: str) -> None:
    """Check that nothing is compared with itself.

    Raises:
        Problem: 422, an id is there twice.
    """
    twice = [
        Fault(f"#query/{name}/{k}", f"{each} is there twice") for k, each in enumerate(ids) if each in ids[:k]
    ]
    if twice:
        raise invalid(twice)
