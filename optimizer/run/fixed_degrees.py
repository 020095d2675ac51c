"""Degrees of parallelism that a run's options fix: which they are, and why no plan of a program has them.

Imported by what builds plan spaces of a search, and by the checks of a request.
"""

from __future__ import annotations

from tapestry.costmodel.degrees import FixedDegrees, degrees_fault
from tapestry.optimizer.run.options import RunOptions
from tapestry.teg.brief import counted
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.possible_rounds import batch_dims


def degrees_of(options: RunOptions) -> FixedDegrees:
    """Return the numbers of parts that all plans of a run have."""
    return FixedDegrees(options.data_parallel, options.tensor_parallel)


def degrees_reason(options: RunOptions, mesh_shape: MeshShape, graph: Graph | None) -> str:
    """Return why no plan of a program has the degrees that options fix; empty: one has. Without `graph`, on a mesh."""
    stages = options.stages or 1
    shapes = [mesh_shape.part(part) for part in mesh_shape.parts()]
    fitting = [shape for shape in shapes if shape.device_count * stages == mesh_shape.device_count]
    faults = [degrees_fault(degrees_of(options), shape) for shape in fitting]
    if faults and all(faults):
        return faults[0]
    if graph is None or options.data_parallel is None:
        return ""
    batch = batch_dims(graph)
    if not batch:
        return f"no dimension of an input of {graph.name!r} is a batch, which runs through it in slices"
    dims = (
        block.signature.dims[batch[block.site]]
        for block in graph.blocks
        if block.signature and block.site in batch
    )
    rows = max(dim.size for dim in dims)
    rows //= options.micro_batches or 1
    if rows < options.data_parallel:
        in_each = " in each micro-batch" if (options.micro_batches or 1) > 1 else ""
        return f"the batch of {graph.name!r} has {counted(rows, 'row')}{in_each}, not {options.data_parallel} or more"
    return ""
