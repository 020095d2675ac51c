"""`/v1/plans/{id}/schedule`, `/memory` and `/alternatives`: when a plan does what, what lives when, and what else it
could do.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from tapestry.service.api import plan_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Context, Parts
from tapestry.service.api.openapi_parts import PRINTABLE, PlanId, Printable, json_answer, problems
from tapestry.service.api.packing import GzippedDocument
from tapestry.service.api.problems import Problem, invalid
from tapestry.service.store import StoredPlan
from tapestry.teg.faults import Fault

router = APIRouter(prefix="/v1/plans", tags=["plans"])

SCHEDULE_EXAMPLE: dict[str, Any] = {
    "cost_model": 29,
    "time_s": 1.5e-06,
    "lanes": ["compute", "communication"],
    "axes": [{"name": "gpu", "bytes_per_s": 3.6e12}],
    "stages": [
        {
            "stage": 0,
            "devices": 8,
            "computes_s": 1e-06,
            "waits_for_copies_s": 5e-07,
            "waits_for_stages_s": 0.0,
        }
    ],
    "blocks": [{"site": "y", "operator": "contract", "kind": "matrix_product.fp16", "stage": 0}],
    "copies": [
        {
            "tensor": "x",
            "reader": "y",
            "kind": "all_gather on gpu",
            "stage": 0,
            "to_stage": 0,
            "queues": [0],
            "traffic_bytes": 28672,
            "axis_bytes": {"gpu": 28672},
        }
    ],
    "spans": {"what": [-1, 0], "round": [0, 0], "start_ps": [0, 500000], "end_ps": [500000, 1500000]},
    "critical": [0, 1],
}
MEMORY_EXAMPLE: dict[str, Any] = {
    "predicted_bytes": 122880,
    "counted_bytes": 122880,
    "roles": [
        "parameters",
        "gradients",
        "optimizer states",
        "activations",
        "inputs",
        "constants",
        "copies",
        "staging",
    ],
    "blocks": ["x", "y"],
    "slots": {"block": [1], "round": [0], "stage": [0]},
    "end_s": 1.5e-06,
    "classes": [
        {
            "devices": [0, 1],
            "capacity_bytes": 85899345920,
            "peak_bytes": 122880,
            "peak_sample": 2,
            "start_s": [0.0],
            "block_s": [0.0],
        }
    ],
    "allocations": {
        "tensors": [{"name": "x", "role": "inputs", "dtype": "float32", "shape": [64, 480], "made_by": "x"}],
        "buffer": ["x"],
        "tensor": [0],
        "role": [4],
        "first": [0],
        "end": [3],
        "bytes": [[122880]],
    },
    "peak": {
        "class": 0,
        "device": 0,
        "sample": 2,
        "slot": 0,
        "block": "y",
        "round": 0,
        "bytes": 122880,
        "roles": {"inputs": 122880},
        "live_count": 1,
        "live": [
            {
                "buffer": "x",
                "tensor": "x",
                "role": "inputs",
                "of": "inputs",
                "bytes": 122880,
                "spec": "[-, -]",
            }
        ],
    },
}
_CURRENT = {
    "strategy": "(gpu.0, -, -)",
    "cost": {"time_s": 1.6e-05},
    "difference": {"time_s": 0.0},
    "block_s": 1.2e-05,
    "feasible": True,
    "excesses": [],
    "copies": [],
    "copy_count": 0,
    "followed": {},
    "verdict": "this is the plan",
}
ALTERNATIVES_EXAMPLE: dict[str, Any] = {
    "block": "y",
    "operator": "contract",
    "dims": [{"name": "m", "size": 64}, {"name": "k", "size": 256}, {"name": "n", "size": 64}],
    "changed": ["y"],
    "neighbors": ["active", "down", "result"],
    "objectives": ["time_s"],
    "complete": True,
    "current": _CURRENT,
    "alternatives": [
        {
            **_CURRENT,
            "strategy": "(-, -, -)",
            "cost": {"time_s": 2e-05},
            "difference": {"time_s": 4e-06},
            "copies": [
                {
                    "tensor": "active",
                    "from": "active",
                    "to": "y",
                    "before": {"traffic_bytes": 0, "seconds": 0.0},
                    "after": {"traffic_bytes": 28672, "seconds": 4e-06},
                }
            ],
            "copy_count": 1,
            "verdict": "more time, and nothing is better; active has to be redistributed for it",
        }
    ],
}
Site = Annotated[str, Query(min_length=1, max_length=1000, json_schema_extra=dict(PRINTABLE)), Printable]


@router.get(
    "/{plan_id}/schedule",
    responses=json_answer("The schedule", SCHEDULE_EXAMPLE) | problems(404, 422),
    response_class=Response,
)
def get_schedule(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Predict when each block and copy of a plan runs, by stage and queue, without executing it: spans in the order of
    issue, those on the critical path, and what each stage waits for.
    """
    return schedule_answer(request, parts.store.plans.get(plan_id), parts, is_trace=False)


@router.get(
    "/{plan_id}/memory",
    responses=json_answer("The memory over time", MEMORY_EXAMPLE) | problems(404, 422),
    response_class=Response,
)
def get_memory(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Count what lives in the memory of each class of devices over a plan's schedule, by tensor and role, and what
    lives at the peak.
    """
    plan = parts.store.plans.get(plan_id)
    found = parts.pool.do(plan_tasks.render_memory, plan.key, plan.run_id, parts.store.address)
    return _answer(request, found, f"{plan.public_id}.memory.json")


@router.get(
    "/{plan_id}/alternatives",
    responses=json_answer("The alternatives, the best first", ALTERNATIVES_EXAMPLE) | problems(404, 422),
    response_class=Response,
)
def get_alternatives(
    plan_id: PlanId,
    request: Request,
    parts: Parts,
    block: Annotated[
        Site,
        Query(
            description="the site of a block of the plan's program, or a tensor that it makes",
            examples=["softmax"],
        ),
    ],
    tied: Annotated[
        bool, Query(description="change blocks alike that differ in nothing but the numbers in their names")
    ] = False,
    follow: Annotated[
        str | None,
        Query(
            max_length=200,
            json_schema_extra=dict(PRINTABLE),
            description="an objective of the run: each neighbor then takes the strategy with which it is least",
        ),
        Printable,
    ] = None,
) -> Response:
    """Cost every other strategy of one block of a plan, with all else as it is: the differences in the objectives,
    the bounds that it breaks, and the copies that change.
    """
    plan = parts.store.plans.get(plan_id)
    objectives = parts.store.runs.request(plan.run_id).options.objectives
    if follow is not None and follow not in objectives:
        raise invalid((Fault("#query/follow", f"{follow!r} is no objective of the run", tuple(objectives)),))
    arguments = (plan.key, plan.run_id, block, tied, follow, parts.store.address)
    found = parts.pool.do(plan_tasks.render_alternatives, *arguments)
    if found.refusal:
        raise invalid((Fault("#query/block", found.refusal),))
    return packed(request, found.content, f"{plan.public_id}.alternatives.json")


def schedule_answer(request: Request, plan: StoredPlan, parts: Context, *, is_trace: bool) -> Response:
    """Build the response for the predicted schedule of a plan, as a document or as a trace for Perfetto.

    Raises:
        Problem: 422, it has too many blocks and copies.
    """
    found = parts.pool.do(plan_tasks.render_schedule, plan.key, plan.run_id, is_trace, parts.store.address)
    return _answer(request, found, f"{plan.public_id}.{'trace' if is_trace else 'schedule'}.json")


def _answer(request: Request, found: GzippedDocument, name: str) -> Response:
    if found.refusal:
        raise Problem(422, "too_long", found.refusal)
    return packed(request, found.content, name)
