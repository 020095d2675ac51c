"""The catalogs as JSON: meshes, devices, operators, plug-ins and objectives for the command line and the API."""

from __future__ import annotations

from typing import Any

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.hardware import (
    CatalogError,
    Mesh,
    device_names,
    device_to_dict,
    load_device,
    load_mesh,
    mesh_names,
    node_meshes,
)
from tapestry.service.plugins import document, plug_ins
from tapestry.service.presentation import objective_document
from tapestry.service.store import mesh_to_document
from tapestry.teg.operators import catalog as operator_catalog


def meshes() -> list[dict[str, Any]]:
    """Return the meshes, with their devices written out; `device_count` is the product of the axes.

    One with a `network` may be taken any number of times: `2x-` and its name is two such nodes.
    """
    return [mesh_document(load_mesh(name)) for name in mesh_names()]


def mesh_by_count(name: str) -> dict[str, Any] | None:
    """Return the mesh of so many nodes (`2x-dgx-h100+dgx-a100`); None if the name is none of such a mesh."""
    nodes = node_meshes(name)
    if nodes == (name,) or not set(nodes) <= set(mesh_names()):  # nor is it the path of a file
        return None
    try:
        return mesh_document(load_mesh(name))
    except CatalogError:
        return None


def mesh_document(mesh: Mesh) -> dict[str, Any]:
    """Convert a mesh to the JSON of a mesh file, with the number of its devices."""
    return {**mesh_to_document(mesh), "device_count": mesh.device_count}


def devices() -> list[dict[str, Any]]:
    """Return the devices as tables of device files, which leave out unknown figures."""
    return [device_to_dict(load_device(name)) for name in device_names()]


def operators() -> list[dict[str, Any]]:
    """Return the operators that blocks may refer to."""
    return [
        {"name": o.name, "is_view": o.view, "summary": (o.infer.__doc__ or "").partition("\n")[0]}
        for o in operator_catalog().values()
    ]


def plugins() -> list[dict[str, Any]]:
    """Return the installed plug-ins: their additions, and the parts that were left out and why."""
    return [document(plug_in) for plug_in in plug_ins()]


def objectives() -> list[dict[str, Any]]:
    """Return the objectives of plans; `needs` are device figures without which one is refused."""
    known = KnownObjectives()
    return [{**objective_document(o), "needs": list(known.figures(o))} for o in known.by_name.values()]
