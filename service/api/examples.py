"""Examples of requests and responses, by the names of their models; the tests send and check them."""

from __future__ import annotations

from typing import Any

from tapestry.costmodel.objectives import OBJECTIVES
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer.run.options import RunOptions
from tapestry.service.layouts import describe, read_layout
from tapestry.service.presentation import objective_document, options_document

GRAPH_ID = "cce335828c20a0d57a49e48fce077c75"
RUN_ID = "0f4bb7a2c1d9"
PLAN = "9a1c03d2e4f5"
PLAN_ID = f"{RUN_ID}-{PLAN}"
EXECUTION_ID = "71d0c94ae5b2"
MEASUREMENT_ID = "b7c9d0e1f2a3"
IMPORT_ID = "3c9e0b71d5a8"
BEGAN, ENDED = "2026-11-21T12:00:00+00:00", "2026-11-21T12:00:03+00:00"
CURSOR = "WyIyMDI2LTExLTIxVDEyOjAwOjAwKzAwOjAwIiwgIjBmNGJiN2EyYzFkOSJd"

_VERIFIED = {
    "sharding": {"ok": True, "issues": []},
    "memory": {"predicted": 122880, "counted": 122880, "method": "simulated"},
    "traffic": {"predicted": 28672, "counted": 28672, "method": "simulated"},
    "values": {"executed": True, "ok": True, "max_error": {"result": 1.2e-07}},
    "time": {
        "seconds": 1.6e-05,
        "low": 1.36e-05,
        "high": 1.88e-05,
        "probability": 0.9,
        "error": 0.0985,
        "classes": [
            {"name": "matrix_product.fp16", "seconds": 1.2e-05, "error": 0.12},
            {"name": "all_gather on gpu", "seconds": 4e-06, "error": 0.16},
        ],
    },
}
_GRAPH = {
    "id": GRAPH_ID,
    "name": "two_layers",
    "blocks": 7,
    "lacks_values": False,
    "created_at": BEGAN,
    "summary": {"name": "two_layers", "blocks": 7, "tensors": 6, "parameters": 32768, "flops": 4210688},
    "objectives": [],
    "links": {
        "self": f"/v1/graphs/{GRAPH_ID}",
        "document": f"/v1/graphs/{GRAPH_ID}/document",
        "drawing": f"/v1/graphs/{GRAPH_ID}/drawing",
        "rewrites": f"/v1/graphs/{GRAPH_ID}/rewrites",
        "history": f"/v1/graphs/{GRAPH_ID}/history",
        "runs": f"/v1/runs?graph_id={GRAPH_ID}",
        "page": f"/graphs/{GRAPH_ID}",
    },
}
_IMPORT = {
    "id": IMPORT_ID,
    "status": "succeeded",
    "name": "two_layers",
    "size_bytes": 73400320,
    "attempt": 1,
    "position": None,
    "graph_id": GRAPH_ID,
    "problem": None,
    "cancel_requested": False,
    "created_at": BEGAN,
    "started_at": BEGAN,
    "ended_at": ENDED,
    "links": {
        "self": f"/v1/imports/{IMPORT_ID}",
        "cancel": f"/v1/imports/{IMPORT_ID}/cancel",
        "graph": f"/v1/graphs/{GRAPH_ID}",
    },
}
_MEASURED = {
    "seconds": 1.7e-05,
    "repeats": 100,
    "repeat_error": 0.02,
    "measured_on": "8 x H100 SXM, PyTorch 2.11",
}
_MEASUREMENT = {"id": MEASUREMENT_ID, **_MEASURED, "created_at": ENDED}
_RUN_LINKS = {
    "self": f"/v1/runs/{RUN_ID}",
    "frontier": f"/v1/runs/{RUN_ID}/frontier",
    "events": f"/v1/runs/{RUN_ID}/events",
    "cancel": f"/v1/runs/{RUN_ID}/cancel",
    "page": f"/runs/{RUN_ID}",
}
_OPTIONS = RunOptions(
    objectives=("time_s", "peak_memory_bytes"),
    constraints=("peak_memory_bytes<=60GiB",),
    seconds=2.0,
    islands=2,
)
_RUN = {
    "id": RUN_ID,
    "status": "succeeded",
    "phase": "done",
    "graph_id": GRAPH_ID,
    "graph": "two_layers",
    "mesh": "dgx-h100",
    **_OPTIONS.to_json(),
    "evaluations": 81920,
    "seconds": 2.0,
    "front": 1,
    "hypervolume": 0.75,
    "best": {"time_s": 1.6e-05, "peak_memory_bytes": 122880},
    "trend": [[1.0, 0.5], [2.0, 0.75]],
    "tags": ["baseline"],
    "notes": "with the weights of January",
    "attempt": 1,
    "stopped": "budget",
    "problem": None,
    "priority": None,
    "cancel_requested": False,
    "created_at": BEGAN,
    "started_at": BEGAN,
    "ended_at": ENDED,
    "links": _RUN_LINKS,
}
_REFUSED = {
    "rule": "acme_cube",
    "reason": "its guard or choices fail at 'y': KeyError: 'nothing'",
    "hint": "its author should see the reason; to search without it, name the others in `rules`",
}
_PLAN = {
    "id": PLAN_ID,
    "plan": PLAN,
    "cost": {"time_s": 1.6e-05, "peak_memory_bytes": 122880, "traffic_bytes": 28672},
    "cost_model": COST_MODEL_VERSION,
    "cost_model_note": None,
    "time": {
        "seconds": 1.6e-05,
        "low": 1.36e-05,
        "high": 1.89e-05,
        "probability": 0.9,
        "error": 0.1,
        "classes": [{"name": "matrix_product.bf16", "seconds": 1.6e-05, "error": 0.1}],
    },
    "lead": {
        "other": f"{RUN_ID}-7d1c1ab0b26b",
        "seconds": 2e-06,
        "error_s": 2e-07,
        "probability": 1.0,
        "within_error": False,
        "rests_on": "matrix_product.bf16",
        "lead_s": 2e-06,
    },
    "feasible": True,
    "devices": "all",
    "micro_batches": 1,
    "recompute": None,
    "offload": None,
    "stages": None,
    "origin": {"kind": "seed", "name": "data parallel 2"},
    "move_count": 1,
    "verified": _VERIFIED,
    "verdict": "verified",
}
_MOVES = [{"rule": "reshard", "place": "y", "choice": "(gpu.0, -, -)"}]
_EXPLANATION = {
    "plan": PLAN_ID,
    "objectives": ["time_s", "traffic_bytes"],
    "devices": "all",
    "stages": None,
    "stage_devices": [],
    "offload": None,
    "start": {"time_s": 2.1e-05, "traffic_bytes": 0},
    "steps": [
        {
            "first": 1,
            "moves": _MOVES,
            "blocks": 7,
            "cost": {"time_s": 1.6e-05, "traffic_bytes": 28672},
            "effect": {"time_s": -5e-06, "traffic_bytes": 28672},
            "without": {"time_s": 5e-06, "traffic_bytes": -28672},
            "gone_with": [],
        }
    ],
    "cost": {"time_s": 1.6e-05, "traffic_bytes": 28672},
    "as_stored": True,
    "cost_model": COST_MODEL_VERSION,
    "cost_model_note": None,
    "rules": {"reshard": "A block computes elsewhere."},
    "events": [{"move": 1, **_MOVES[0], "effect": "placed", "site": "y"}],
    "blocks": {"y": {"events": [0], "origins": ["y"]}},
}
_EXECUTION = {
    "id": EXECUTION_ID,
    "status": "succeeded",
    "plan": PLAN_ID,
    "run": RUN_ID,
    "backend": "numpy",
    "values": True,
    "seed": 0,
    "request": {"given": [], "tensors": {}, "save": {}, "outputs": False},
    "counts": {
        "peak_memory_bytes": {"predicted": 122880, "counted": 122880},
        "traffic_bytes": {"predicted": 28672, "counted": 28672},
    },
    "verified": _VERIFIED,
    "problem": None,
    "created_at": BEGAN,
    "ended_at": ENDED,
    "links": {
        "self": f"/v1/executions/{EXECUTION_ID}",
        "plan": f"/v1/plans/{PLAN_ID}",
        "trace": f"/v1/executions/{EXECUTION_ID}/trace",
    },
}
_TENSOR = {
    "name": "logits_7",
    "dtype": "float32",
    "shape": [64, 64],
    "size_bytes": 16384,
    "digest": "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
    "place": {
        "mesh": "dgx-h100",
        "mesh_digest": "d4735e3a265e16eee03f59718b9b5d03",
        "devices": "",
        "shape": [64, 64],
        "spec": "[gpu.0, -]",
        "layout": "",
    },
    "load": None,
    "stored_at": ENDED,
    "links": {"self": "/v1/tensors/logits_7", "content": "/v1/tensors/logits_7/content"},
}
_LAYOUT = describe(read_layout("f32[3,5]{1,0:T(2,2)}"), at=(2, 3), offset=23)

_MOVE = {"rule": "fuse_after_contract", "place": "active", "choice": ""}
_RULE = {
    "kind": "optimization",
    "family": "fusion",
    "domain": "exact",
    "summary": "A cell is computed where the contract before it makes its elements.",
}
_BOUND = {
    "bound": 1.52e-05,
    "best": 1.6e-05,
    "gap": 0.05,
    "scope": {
        "structures": 2,
        "views": ["gpu.0"],
        "schedule_orders": ["program"],
        "devices": ["all"],
        "micro_batches": [1],
    },
}
_STAGE = {"stage": "moves", "moves": [_MOVE], "refused": [], "unfinished": []}

REQUESTS: dict[str, Any] = {
    "RewriteBody": {"moves": [_MOVE]},
    "RunBody": {
        "graph_id": GRAPH_ID,
        "mesh": "dgx-h100",
        **RunOptions(
            objectives=_OPTIONS.objectives, constraints=_OPTIONS.constraints, seconds=2.0
        ).to_request(),
    },
    "RunChangeBody": {"priority": 5},
    "BatchBody": {
        "graphs": [GRAPH_ID],
        "meshes": ["dgx-h100", "2x-dgx-h100"],
        "seeds": [0],
        "name": "a night of tuning",
        "verify": "dry",
        "budget": {"evaluations": 500},
    },
    "LayoutBody": {"text": "f32[3,5]{1,0:T(2,2)}", "at": [2, 3], "offset": 23},
    "DrawingBody": {"text": "f32[3,5]{1,0:T(2,2)}"},
    "ExecutionBody": {"backend": "numpy", "values": True, "seed": 0, "outputs": True},
}
_BATCH = {
    "id": "5b1f0c9a7e3d",
    "name": "a night of tuning",
    "count": 1,
    "statuses": {"queued": 1},
    "best": {"time_s": 0.0012},
    "created_at": "2026-11-27T03:05:58+00:00",
    "links": {"self": "/v1/batches/5b1f0c9a7e3d", "cancel": "/v1/batches/5b1f0c9a7e3d/cancel"},
}

EXAMPLES: dict[str, Any] = {
    "QuotasAnswer": {
        "tenant": "team-a",
        "quotas": [
            {"name": "jobs", "limit": 20, "used": 3},
            {"name": "stored_bytes", "limit": None, "used": 4194304},
            {"name": "search_seconds", "limit": 36000, "used": 5400.5},
        ],
    },
    "AuditAnswer": {
        "items": [
            {
                "number": 7,
                "at": BEGAN,
                "tenant": "default",
                "actor": "1f0c9a7e",
                "address": "192.0.2.7",
                "action": "POST /v1/runs",
                "subject": RUN_ID,
                "outcome": "done",
                "status": 202,
                "request_id": "b1946ac92492d234",
            }
        ],
        "next": None,
    },
    "GraphAnswer": _GRAPH,
    "GraphsAnswer": {"items": [_GRAPH], "next": None},
    "CandidateMovesAnswer": {
        "graph_id": GRAPH_ID,
        "graph": "two_layers",
        "total": 1,
        "places": 1,
        "moves": [_MOVE],
        "rules": {"fuse_after_contract": _RULE},
        "refused": [_REFUSED],
        "next": None,
    },
    "RewriteAnswer": {
        "graph": {**_GRAPH, "blocks": 6},
        "before": None,
        "source": GRAPH_ID,
        "blocks": {"before": 7, "after": 6},
        "flops": {"before": 4210688, "after": 4210688},
        "stages": [_STAGE],
    },
    "PrecisionAnswer": {
        "graph": _GRAPH,
        "source": GRAPH_ID,
        "stored": {"dtype": "bf16", "max_error": {"y": 0.004}},
    },
    "GraphHistoryAnswer": {
        "graph_id": GRAPH_ID,
        "items": [
            {
                "source": GRAPH_ID,
                "part": None,
                "moves": [_MOVE],
                "created_at": BEGAN,
                "links": {"source": f"/v1/graphs/{GRAPH_ID}"},
            }
        ],
    },
    "ImportAnswer": _IMPORT,
    "ImportsAnswer": {"items": [_IMPORT], "next": None},
    "SubmittedRunAnswer": {"id": RUN_ID, "status": "queued", "reused": False, "links": _RUN_LINKS},
    "RunAnswer": _RUN,
    "RunDetailAnswer": {
        **_RUN,
        "queue": None,
        "mesh_hash": "8d1f0c6a5be2473f9a04c7d2e6b13f58",
        "mesh_is_named": True,
        "options": options_document(_OPTIONS),
        "request": _OPTIONS.to_request(),
        "history": [{"seconds": 1.0, "evaluations": 40960, "front": 1, "hypervolume": 0.75}],
        "rule_statistics": {"reshard": {"applied": 4096, "improved": 3}},
        "refused_rules": [_REFUSED],
        "bounds": {"time_s": _BOUND},
        "expected": {"time_s": 0.0025},
        "versions": {"python": "3.11.7"},
        "host": {"name": "builder", "cores": 2},
        "timings": {"compile_s": 0.4},
    },
    "RunLabelsAnswer": {"tags": {"baseline": 2}, "meshes": {"dgx-h100": 5}},
    "RunsAnswer": {"items": [_RUN], "next": CURSOR},
    "FrontierAnswer": {
        "run": RUN_ID,
        "status": "succeeded",
        "objectives": [objective_document(objective) for objective in OBJECTIVES[:2]],
        "checks": {"verified": 1, "failed": 0, "untrusted": 0, "unchecked": 0},
        "unchecked_because": None,
        "plans": [_PLAN],
    },
    "PlanDetailAnswer": {
        **_PLAN,
        "run": RUN_ID,
        "graph_id": GRAPH_ID,
        "mesh": "dgx-h100",
        "objectives": ["time_s", "peak_memory_bytes"],
        "on_frontier": True,
        "moves": _MOVES,
        "placements": {"format": "tapestry.placements", "version": 1},
        "loading": None,
        "memory": {
            "peak_memory_bytes": 122880,
            "context_bytes": 314572800,
            "workspace_bytes": 33554432,
            "allocator_bytes": 25165824,
            "communicator_bytes": 754974720,
        },
        "executions": [_EXECUTION],
        "measurements": [_MEASUREMENT],
        "links": {"self": f"/v1/plans/{PLAN_ID}", "graph": f"/v1/plans/{PLAN_ID}/graph"},
    },
    "MovesAnswer": {"moves": _MOVES},
    "ExplanationAnswer": _EXPLANATION,
    "ExecutionAcceptedAnswer": {
        "id": EXECUTION_ID,
        "status": "queued",
        "links": {"self": f"/v1/executions/{EXECUTION_ID}", "plan": f"/v1/plans/{PLAN_ID}"},
        "unread": [],
    },
    "ExecutionAnswer": _EXECUTION,
    "MeasurementAnswer": _MEASUREMENT,
    "MeasurementBody": _MEASURED,
    "TensorAnswer": _TENSOR,
    "TensorsAnswer": {"items": [_TENSOR]},
    "CatalogAnswer": {"items": [{"name": "time_s", "unit": "s"}]},
    "LayoutAnswer": _LAYOUT,
    "RuleRunsAnswer": {
        "items": [
            {
                "run": "0f4bb7a2c1d9",
                "graph": "two_layers",
                "mesh": "dgx-h100",
                "created_at": "2026-01-02T03:04:05+00:00",
                "applied": 12,
                "improved": 3,
            }
        ],
        "total": 1,
    },
    "LearnedAnswer": {
        "prior": 1,
        "rules": [
            {
                "rule": "reshard",
                "operator_class": "product",
                "mesh_kind": "1 axis",
                "focus": "peak_memory_bytes+time_s",
                "snapshots": 1,
                "applicable": 421,
                "applied": 392,
                "improved": 51,
                "credit": 27.25,
                "rate": 69.5,
                "volume": 0.029,
            }
        ],
        "snapshots": [
            {
                "snapshot": 1,
                "rule": "reshard",
                "applicable": 421,
                "applied": 392,
                "improved": 51,
                "credit": 27.25,
                "volume": 0.029,
            }
        ],
    },
    "BatchDetailAnswer": {
        **_BATCH,
        "entries": [
            {
                "number": 0,
                "graph_id": GRAPH_ID,
                "mesh": "dgx-h100",
                "seed": 0,
                "run": RUN_ID,
                "status": "queued",
                "problem": None,
                "best": {"time_s": 0.0012},
            }
        ],
    },
    "BatchesAnswer": {"items": [_BATCH], "next": None},
    "HealthAnswer": {"status": "ok"},
    "ReadyAnswer": {"status": "ok", "workers": 1, "clock_skew_s": 0.0},
}
