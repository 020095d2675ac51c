"""The costs of a plan as the reference cost model counts them, the program's own resources among them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tapestry.costmodel.kernel_arrays import COLUMNS
from tapestry.costmodel.resources import LARGEST, Resource, whole_amount
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.rounds import time_axis
from tapestry.teg.sharding.strategy import index_boxes


@dataclass
class CostTally:
    """The costs of a plan as they are counted, as integers: bytes, flops, pJ and ticks; `resources` by column.

    A vector of them has at most `LARGEST` of each: 4.6 exaflops, and 4.6 MJ.
    """

    time_ticks: int = 0
    peak_memory_bytes: int = 0
    total_memory_bytes: int = 0
    compute_flops: int = 0
    peak_compute_flops: int = 0
    traffic_bytes: int = 0
    memory_waste_bytes: int = 0
    compute_waste_flops: int = 0
    energy_pj: int = 0
    peak_per_device: list[int] = field(default_factory=list)
    resources: dict[str, int] = field(default_factory=dict)

    def vector(self) -> np.ndarray:
        """Return the costs in the order of `costmodel.kernel_arrays.COLUMNS`, then those of the resources."""
        columns = (min(getattr(self, name), LARGEST) for name in COLUMNS)
        return np.array([*columns, *self.resources.values()], dtype=np.int64)


def amounts_per_device(
    graph: Graph, placements: Placements, mesh_shape: MeshShape, resource: Resource
) -> list[int]:
    """Count a resource on every device, in units of one over its scale: each part of each block from its table."""
    stages = 1 if placements.stages is None else placements.stages.count
    found, placements = [0] * (stages * mesh_shape.device_count), with_boundary(graph, placements)
    time = None if placements.rounds is None else time_axis(graph, placements.rounds)
    for block in graph.blocks:
        table = block.definition.costs
        cost = None if table is None or block.operator == "view" else table.named(resource.name)
        if cost is None:
            continue
        dims = [d.name for d in block.signature.dims] if block.signature is not None else []
        signature, times = block.signature, 1
        if time is not None:
            signature, times = time.definition_of(block).signature, time.runs_of(block)
        index = index_boxes(signature, placements.of(block).strategy, mesh_shape)
        for d, sizes in enumerate((index[..., 1] - index[..., 0]).tolist()):
            if all(sizes):
                by_name = dict(zip(dims, sizes, strict=True))
                steps = (whole_amount(step, resource.scale) * by_name[dim] for dim, step in cost.steps)
                first = placements.of(block).part % stages * mesh_shape.device_count
                found[first + d] += times * (whole_amount(cost.fixed, resource.scale) + sum(steps))
    return found
