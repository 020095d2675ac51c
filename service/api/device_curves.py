"""`/v1/devices/{member}/curves`, `/v1/meshes/{member}/curves`, `/v1/runs/{id}/mesh/curves`: figures and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from tapestry.hardware import device_names, mesh_names, node_meshes
from tapestry.service.api import device_tasks
from tapestry.service.api.answers import packed
from tapestry.service.api.context import Parts
from tapestry.service.api.openapi_parts import RunId, json_answer, problems
from tapestry.service.api.problems import Problem
from tapestry.teg.faults import Fault, near_names

router = APIRouter(prefix="/v1", tags=["catalogs"])

DeviceName = Annotated[str, Path(description="the name of a device", examples=["h200-sxm-141gb"])]
MeshName = Annotated[
    str, Path(description="the name of a mesh, or of several nodes", examples=["2x-dgx-h100"])
]
FIGURE = {
    "key": "memory_bytes",
    "group": "memory",
    "about": "memory of one device",
    "value": 141000000000,
    "unit": "bytes",
    "source": "its data sheet",
}
MEASURED = {
    "name": "product 1x512x512x512 float32",
    "table": 0,
    "class": "matrix_product",
    "precision": "fp32",
    "flops": 268435456.0,
    "bytes": 3145728.0,
    "sizes": [1.0, 512.0, 512.0, 512.0],
    "measured_s": 1.294e-05,
    "predicted_s": 1.05e-05,
    "low_s": 6.1e-06,
    "high_s": 1.8e-05,
    "is_inside": True,
    "error": -0.19,
}
DEVICE_EXAMPLE: dict[str, Any] = {
    "name": "h200-sxm-141gb",
    "vendor": "NVIDIA",
    "architecture": "Hopper",
    "aliases": ["H200"],
    "layouts": ["row_major"],
    "meshes": ["dgx-h200"],
    "figures": [FIGURE],
    "kernels": [{"class": "matrix_product.fp16", "error": 0.2, "origin": "h100-sxm5-80gb", "source": ""}],
    "sizes": [64],
    "products": [
        {"precision": "fp16", "peak_flops_per_s": 9.9e14, "seconds": [4e-06], "ideal": [1e-08], "error": 0.2}
    ],
    "bytes": [4096],
    "streams": {"seconds": [2e-06], "ideal": [1e-09], "error": 0.1},
    "measured": {
        "tables": [{"source": "measured on one H200", "launch": "unfused", "is_fitted": False, "rows": 1}],
        "kernels": [MEASURED],
    },
}
MESH_EXAMPLE: dict[str, Any] = {
    "name": "dgx-h100",
    "devices": [{"name": "h100-sxm5-80gb", "is_known": True}],
    "nodes": [],
    "device_count": 8,
    "queues": ["communication"],
    "systems": ["NVIDIA DGX H100"],
    "bytes": [4096],
    "axes": [
        {
            "name": "gpu",
            "size": 8,
            "topology": "switch",
            "bandwidth_bytes_per_s": 4.5e11,
            "latency_s": 7e-06,
            "device_bytes_per_s": 4.5e11,
            "figures": [FIGURE],
            "tables": [
                {
                    "kind": "all_reduce",
                    "members": 8,
                    "inside": 1,
                    "algorithm": "in_switch",
                    "rows": 23,
                    "error": 0.099,
                    "source": "fitted to 15 rows",
                }
            ],
            "groups": [
                {
                    "kind": "all_reduce",
                    "members": 8,
                    "inside": 1,
                    "received_share": 1.75,
                    "seconds": [1.6e-05],
                    "computed": [1.7e-05],
                    "points": [
                        {
                            "algorithm": "in_switch",
                            "source": "fitted to 15 rows",
                            "table_error": 0.099,
                            "bytes": [4096.0],
                            "measured_s": [1.642e-05],
                            "predicted_s": [1.642e-05],
                            "computed_s": [1.7e-05],
                            "error": [0.0],
                            "computed_error": [0.035],
                            "left_out_error": [-0.012],
                        }
                    ],
                }
            ],
        }
    ],
    "network": None,
}


@router.get(
    "/devices/{member}/curves",
    responses=json_answer("The device", DEVICE_EXAMPLE) | problems(404),
    response_class=Response,
)
def get_device_curves(member: DeviceName, request: Request, parts: Parts) -> Response:
    """Show a device of the catalog: every figure with its unit and source; seconds of square products and of kernels
    that stream, beside those of the roofline; and the kernels that were measured on it, each with its prediction, the
    interval that nine in ten times are predicted to lie in, and the relative error.
    """
    known = device_names(with_aliases=True)
    content = parts.pool.do(device_tasks.compute_device_curves, member) if member in known else None
    return _answer(request, content, "devices", member, known)


@router.get(
    "/meshes/{member}/curves",
    responses=json_answer("The mesh", MESH_EXAMPLE) | problems(404),
    response_class=Response,
)
def get_mesh_curves(member: MeshName, request: Request, parts: Parts) -> Response:
    """Show a mesh of the catalog, or so many nodes of one: of every axis its figures with sources, and the seconds of
    collectives by bytes, as searches count them and from the figures alone, beside the tables of measurements, with
    the relative error of both at each size, and that of what the table without the size gives.
    """
    known = mesh_names()
    is_known = member in known or set(node_meshes(member)) <= set(known)  # nor is it the path of a file
    content = parts.pool.do(device_tasks.compute_mesh_curves, member) if is_known else None
    return _answer(request, content, "meshes", member, known)


@router.get(
    "/runs/{run_id}/mesh/curves",
    responses=json_answer("The mesh and its devices", {"mesh": MESH_EXAMPLE, "devices": [DEVICE_EXAMPLE]})
    | problems(404),
    response_class=Response,
)
def get_run_curves(run_id: RunId, request: Request, parts: Parts) -> Response:
    """Show the mesh of a run and its devices as those of the catalog are shown, with the figures that the run had,
    be the mesh in the catalog or not.
    """
    parts.store.runs.get(run_id)
    content = parts.pool.do(device_tasks.compute_run_curves, run_id, parts.store.address)
    return packed(request, content, f"{run_id}.mesh.curves.json")


def _answer(request: Request, content: bytes | None, kind: str, name: str, known: Sequence[str]) -> Response:
    if content is None:
        message = f"nothing among the {kind} is called {name[:80]!r}"
        raise Problem(404, "unknown_id", message, (Fault("#path/member", message, near_names(name, known)),))
    return packed(request, content, f"{name}.curves.json")
