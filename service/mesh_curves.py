"""Meshes as documents: axes with figures and sources, and times of collectives by bytes beside measured ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tapestry.hardware import CatalogError, Mesh, device_names, load_mesh
from tapestry.hardware.collective_tables import CollectiveTable
from tapestry.hardware.timing import copy_ticks, seconds, step_ticks
from tapestry.hardware.timing.collectives import group_rounds, received_share
from tapestry.hardware.timing.units import Floats
from tapestry.service.device_curves import figures_of

BYTES = tuple(2**k for k in range(8, 35))  # of what a collective is of
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all")
AS_STEPS = {"send_recv": "fetch"}
FEWEST_NODES = 2


class CollectiveGroup(NamedTuple):
    """A collective among `members` devices of an axis, each with so many devices `inside` of the next faster axis."""

    kind: str
    members: int
    inside: int


def mesh_document(name: str) -> dict[str, Any] | None:
    """Build the document of a mesh of the catalog, or of several of its nodes; None if there is no such mesh."""
    try:
        return document_of_mesh(load_mesh(name))
    except CatalogError:
        return None


def document_of_mesh(mesh: Mesh) -> dict[str, Any]:
    """Build the document of a mesh.

    `groups` of an axis are the collectives among all its devices, and those of the measured tables. `seconds`, by
    `bytes`, are those that searches count, `computed` those that follow from the figures of the axes alone. `points`
    are the sizes of the measured tables, with the relative error of both, and that of the times which the table
    without the size gives: predictions pass through what was measured, so their own errors there say little. `network`
    is the axis between several such meshes, null where it is not known or is one of the axes.
    """
    nodes = mesh.nodes or (mesh,)
    known = device_names()
    devices = list(dict.fromkeys(node.device.name for node in nodes))
    return {
        "name": mesh.name,
        "devices": [{"name": each, "is_known": each in known} for each in devices],
        "nodes": [
            {"name": each, "count": n} for each, n in Counter(node.name for node in mesh.nodes).items()
        ],
        "device_count": mesh.device_count,
        "queues": [mesh.queue_name(queue) for queue in range(mesh.queue_count)],
        "systems": list(mesh.systems),
        "bytes": list(BYTES),
        "axes": [_axis(mesh, at) for at in range(len(mesh.axes))],
        "network": None if mesh.network is None else {**_axis(_joined(mesh), 0), "size": 1},
    }


def _joined(mesh: Mesh) -> Mesh:
    """Return so many nodes as the network was measured among at most."""
    assert mesh.network is not None
    return mesh.by_count(max(FEWEST_NODES, *(table.members for table in mesh.network.collectives), 0))


def _axis(mesh: Mesh, at: int) -> dict[str, Any]:
    axis = mesh.axes[at]
    return {
        "name": axis.name,
        "size": axis.size,
        "topology": axis.topology,
        "bandwidth_bytes_per_s": axis.bandwidth_bytes_per_s,
        "latency_s": axis.latency_s,
        "device_bytes_per_s": axis.device_rate(),
        "figures": list(figures_of(axis)),
        "tables": [
            {
                "kind": table.kind,
                "members": table.members,
                "inside": table.inside,
                "algorithm": table.algorithm,
                "rows": len(table.bytes),
                "error": table.error,
                "source": table.source,
            }
            for table in axis.collectives
        ],
        "groups": [_group(mesh, at, group) for group in _groups(mesh, at)],
    }


def _groups(mesh: Mesh, at: int) -> Iterator[CollectiveGroup]:
    """Yield what curves are drawn of: each kind among the whole axis, then what else was measured and fits on it."""
    axis = mesh.axes[at]
    inside = mesh.axes[at + 1].size if at + 1 < len(mesh.axes) else 1
    measured = [CollectiveGroup(table.kind, table.members, table.inside) for table in axis.collectives]
    whole = [CollectiveGroup(kind, axis.size, 1) for kind in KINDS] if axis.size > 1 else []
    for group in dict.fromkeys((*whole, *measured)):
        if group.members <= axis.size and group.inside <= inside:
            yield group


def _group(mesh: Mesh, at: int, group: CollectiveGroup) -> dict[str, Any]:
    bare = replace(
        mesh, axes=tuple(replace(axis, collectives=(), inner=None) for axis in mesh.axes), nodes=()
    )
    tables = [t for t in mesh.axes[at].collectives if CollectiveGroup(t.kind, t.members, t.inside) == group]
    sizes = np.array(BYTES, np.float64)
    return {
        **group._asdict(),
        "received_share": received_share(group.kind, group.members * group.inside),
        "seconds": _seconds(mesh, at, group, sizes).tolist(),
        "computed": _seconds(bare, at, group, sizes).tolist(),
        "points": [
            {
                "algorithm": table.algorithm,
                "source": table.source,
                "table_error": table.error,
                **_points(mesh, bare, at, group, table),
            }
            for table in tables
        ],
    }


def _points(
    mesh: Mesh, bare: Mesh, at: int, group: CollectiveGroup, table: CollectiveTable
) -> dict[str, list[float]]:
    sizes, measured = np.array(list(dict.fromkeys(zip(table.bytes, table.seconds, strict=True)))).T
    predicted, computed = (_seconds(each, at, group, sizes) for each in (mesh, bare))
    left_out = np.array([_seconds(_without(mesh, at, table, n), at, group, np.array([n]))[0] for n in sizes])
    return {
        "bytes": sizes.tolist(),
        "measured_s": measured.tolist(),
        "predicted_s": predicted.tolist(),
        "computed_s": computed.tolist(),
        "error": (predicted / measured - 1).tolist(),
        "computed_error": (computed / measured - 1).tolist(),
        "left_out_error": (left_out / measured - 1).tolist(),
    }


def _without(mesh: Mesh, at: int, table: CollectiveTable, size: float) -> Mesh:
    """Return the mesh as if a size of a table had not been measured."""
    rows = [row for row in zip(table.bytes, table.seconds, strict=True) if row[0] != size]
    kept = [each for each in mesh.axes[at].collectives if each != table or each.bytes != table.bytes]
    if rows:
        kept.append(
            replace(table, bytes=tuple(n for n, _ in rows), seconds=tuple(spent for _, spent in rows))
        )
    axes = list(mesh.axes)
    axes[at] = replace(axes[at], collectives=tuple(kept))
    return replace(mesh, axes=tuple(axes), nodes=())


def _seconds(mesh: Mesh, at: int, group: CollectiveGroup, sizes: Floats) -> Floats:
    """Compute the seconds of a collective of tensors of so many bytes."""
    if group.inside == 1:
        received = sizes * received_share(group.kind, group.members)
        kind = AS_STEPS.get(group.kind, group.kind)
        return seconds(step_ticks(mesh.axes[at], kind, group.members, received))
    table = CollectiveTable(group.kind, group.members, (), (), 0.0, "", group.inside)
    rounds = group_rounds(table, mesh.axes[at].name, mesh.axes[at + 1].name, sizes)
    received = np.stack([bytes_ for _, bytes_ in rounds], axis=-1)
    return seconds(copy_ticks(mesh, [each for each, _ in rounds], received))
