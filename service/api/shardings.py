"""`/v1/plans/{id}/sharding`: what a plan splits and redistributes, in columns and in words."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from tapestry.service.api import plan_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Parts
from tapestry.service.api.openapi_parts import PlanId, json_answer, problems
from tapestry.service.api.problems import Problem

router = APIRouter(prefix="/v1/plans", tags=["plans"])

EXAMPLE: dict[str, Any] = {
    "plan": "0f4bb7a2c1d9-1f6c2b7a9d03",
    "words": {
        "headline": "features over gpu; weights stay split; the fastest plan of its run",
        "sentences": [{"topic": "Devices", "text": "All 2 devices work, 2 gpu."}],
    },
    "mesh": {
        "name": "pair",
        "device": "h100-sxm5-80gb",
        "axes": [
            {
                "name": "gpu",
                "size": 2,
                "topology": "switch",
                "bandwidth_bytes_per_s": 450e9,
                "received_bytes": [256, 256],
            }
        ],
        "sub_axes": [{"name": "gpu.0", "axis": 0, "size": 2}],
        "stages": 1,
        "devices": [0, 1],
        "links": {"from": [0, 1], "to": [1, 0], "bytes": [256, 256]},
    },
    "rounds": 1,
    "blocks": {
        "site": ["x", "y", "out"],
        "operator": [0, 1, 2],
        "signature": [0, 1, 2],
        "strategy": [0, 0, 1],
        "part": [0, 0, 0],
        "stage": [0, 0, 0],
        "times": [0, 1, 1],
        "flops": [0, 128, 0],
        "bytes": [0, 1024, 0],
        "seconds": [0.0, 2e-06, 0.0],
        "energy_j": [0.0, 4.3598e-08, 0.0],
        "repetition": [0, 0, 0],
    },
    "reads": {
        "block": [1, 2],
        "position": [0, 0],
        "tensor": [0, 1],
        "through": [-1, -1],
        "sharding": [0, 1],
        "layout": ["", ""],
        "redistribution": [-1, 0],
    },
    "tensors": {
        "name": ["x", "y"],
        "block": [0, 1],
        "role": ["activation", ""],
        "dtype": ["float32", "float32"],
        "shape": [[8, 16], [8, 16]],
        "sharding": [0, 0],
        "layout": ["", ""],
        "stage": [0, 0],
        "device_bytes": [256, 256],
    },
    "redistributions": {
        "tensor": [1],
        "reader": [2],
        "position": [0],
        "readers": [1],
        "from": [0],
        "to": [1],
        "from_layout": [""],
        "to_layout": [""],
        "from_stage": [0],
        "to_stage": [0],
        "kind": ["all_gather"],
        "times": [1],
        "rounds": [[0]],
        "bytes": [512],
        "seconds": [5e-06],
    },
    "exchanges": {
        "redistribution": [0],
        "axis": ["gpu"],
        "kind": ["all_gather"],
        "members": [2],
        "bytes": [512],
    },
    "matrix": {"kind": ["all_gather"], "bytes": [[512]], "times": [1], "seconds": [5e-06]},
    "operators": ["source", "cell", "sink"],
    "signatures": [
        {"dims": [["d0", 8, "parallel"], ["d1", 16, "parallel"]], "inputs": [], "outputs": [[0, 1]]},
        {"dims": [["m", 8, "parallel"], ["n", 16, "parallel"]], "inputs": [[0, 1]], "outputs": [[0, 1]]},
        {"dims": [["d0", 8, "parallel"], ["d1", 16, "parallel"]], "inputs": [[0, 1]], "outputs": []},
    ],
    "strategies": [{"text": "(gpu.0, -)", "axes": [[0], []]}, {"text": "(-, -)", "axes": [[], []]}],
    "shardings": [
        {
            "text": "[gpu.0, -]",
            "class": "split",
            "shape": [8, 16],
            "axes": [[0], []],
            "granules": [1, 1],
            "windowed": [False, False],
            "partial": [],
            "monoid": None,
            "replicated": [],
            "ranges": [0, 1],
        },
        {
            "text": "[-, -]",
            "class": "replicated",
            "shape": [8, 16],
            "axes": [[], []],
            "granules": [1, 1],
            "windowed": [False, False],
            "partial": [],
            "monoid": None,
            "replicated": [0],
            "ranges": [2, 1],
        },
    ],
    "ranges": [
        {"bounds": [[0, 4], [4, 8]], "of_device": [0, 1]},
        {"bounds": [[0, 16]], "of_device": [0, 0]},
        {"bounds": [[0, 8]], "of_device": [0, 0]},
    ],
    "totals": {"traffic_bytes": 512, "compute_flops": 128, "peak_memory_bytes": 768, "time_s": 7e-06},
}
SHARDING = json_answer("The columns of the plan's sharding, and the plan in words", EXAMPLE)


@router.get("/{plan_id}/sharding", responses=SHARDING | problems(404, 422, 503), response_class=Response)
def get_plan_sharding(plan_id: PlanId, request: Request, parts: Parts) -> Response:
    """Fetch how a plan shards its program: the strategy and the costs of every block, the sharding of every tensor and
    of every read, what is redistributed between them in which rounds, and the bytes over each mesh axis and link. Bytes
    of redistributions add up to the plan's traffic. Numbers are those of rows in tables of the same document.
    """
    plan = parts.store.plans.get(plan_id)
    found = parts.pool.do(plan_tasks.render_sharding, plan.public_id, parts.store.address)
    if found.refusal:
        raise Problem(422, "invalid", found.refusal)
    return packed(request, found.content, f"{plan.public_id}.sharding.json")
