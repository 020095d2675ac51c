"""The move of one tensor to a sharding: from another one, as a program of a source and a sink; or from one device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.execution import Execution
from tapestry.hardware.simulator.failure import device_example, devices_at
from tapestry.hardware.simulator.run import simulate
from tapestry.hardware.timing import step_ticks
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import Spec, boxes, volumes
from tapestry.teg.sharding.strategy import Strategy


class Sharding(NamedTuple):
    """The spec and the layout in which devices hold a tensor; nothing of it is partial."""

    spec: Spec
    layout: str = ""


def reshard(
    shape: tuple[int, ...], dtype: str, held: Sharding, wanted: Sharding, mesh: Mesh, devices: str = ""
) -> Execution:
    """Count what it takes to bring a tensor from one sharding into another on a part of a mesh.

    Raises:
        ValueError: a sharding does not fit the shape or the mesh.
    """
    builder = GraphBuilder("reshard")
    tensor = builder.source("held", shape, dtype)
    builder.sink(tensor, site="wanted")
    placements = Placements(
        {
            "held": Placement(Strategy(held.spec.dims), layouts=(held.layout,)),
            "wanted": Placement(Strategy(wanted.spec.dims), read_layouts=(wanted.layout,)),
        },
        devices=devices,
    )
    program = expand(builder.build(), placements, MeshShape(mesh.axis_sizes))
    return simulate(program, mesh.part(program.axes), dry=True, capacity_check=False)


class SentParts(NamedTuple):
    """The bytes that devices receive from one that holds a tensor, and the ticks until the last one has its part."""

    traffic_bytes: int
    ticks: int


def distribute(
    shape: tuple[int, ...], dtype: str, holder: str, wanted: Sharding, mesh: Mesh, devices: str = ""
) -> SentParts:
    """Count what it takes to send the parts of a tensor from the device that holds it to a part of a mesh.

    `holder` has the coordinates of the device on the whole mesh, such as `gpu:3`. It sends one part after the other,
    over the slowest axis that lies between, and replicas each their own; what it keeps is not sent.

    Raises:
        ValueError: the mesh has no such device, or more than one.
    """
    whole = MeshShape(mesh.axis_sizes)
    found = devices_at(holder, whole)
    if found is None or len(found) != 1:
        raise ValueError(
            f"device {holder!r} is none of mesh {mesh.name!r}: name one, such as {device_example(whole)}"
        )
    place, part = whole.axis_coordinates[found[0]], whole.part(devices)
    sizes = volumes(boxes(wanted.spec, shape, part)) * item_bytes(dtype)
    traffic_bytes = ticks = 0
    for target, size_bytes in zip(part.axis_coordinates, sizes.tolist(), strict=True):
        crossed = np.flatnonzero(target != place)
        if len(crossed) and size_bytes:
            traffic_bytes += size_bytes
            ticks += int(step_ticks(mesh.axes[int(crossed[0])], "fetch", 2, size_bytes))
    return SentParts(traffic_bytes, ticks)
