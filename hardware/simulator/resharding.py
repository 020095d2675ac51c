"""The move of one tensor from a sharding to another, as a program of its own: a source, and a sink that reads it."""

from __future__ import annotations

from typing import NamedTuple

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator.execution import Execution
from tapestry.hardware.simulator.run import simulate
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import Spec
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
    return simulate(program, mesh.part(program.mesh_shape.axes), dry=True, capacity_check=False)
