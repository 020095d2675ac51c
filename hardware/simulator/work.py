"""The cost of one block on each device: operations, bytes accessed, ticks; from index parts and read ranges.

The bytes that a block reads follow the convention "declared reads" of `docs/sharding.md`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tapestry.hardware.mesh import Device
from tapestry.hardware.simulator.storage import ShardStorage
from tapestry.hardware.timing import NO_CLASS, SUPPLIED_CLASS, TimeClass, block_class, block_ticks
from tapestry.teg.costs import amounts, states_seconds, supplied_seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Work, flops_of, kernel_sizes, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.spec import volumes


class BlockWork(NamedTuple):
    """The work of one block on every device, `(devices,)` each, and what its time has its error in common with."""

    flops: np.ndarray
    accessed_bytes: np.ndarray
    ticks: np.ndarray
    time_class: TimeClass = NO_CLASS


def known_work(
    program: ExplicitGraph,
    step: ComputeStep,
    device: Device,
    storage: ShardStorage,
    compute_dtype: str | None,
    cache: ResultCache,
) -> BlockWork:
    """Return the work of a block, which blocks of equal parts share; all arrays are read-only."""
    block, buffers = program.abstract.by_site[step.site], program.buffers
    types = (program.abstract.input_types(block), program.abstract.output_types(block))
    reads = tuple(
        (
            cache.key_of(read.wanted),
            cache.key_of(read.part),
            buffers[read.buffer].dtype,
            buffers[read.buffer].layout,
        )
        for read in step.reads
    )
    written = tuple((cache.key_of(buffers[key].boxes), buffers[key].layout) for key in step.outputs)
    key = ("work", step.definition, types, cache.key_of(step.index), reads, written, compute_dtype)
    return cache.known(key, lambda: block_work(program, step, device, storage, compute_dtype))


def block_work(
    program: ExplicitGraph,
    step: ComputeStep,
    device: Device,
    storage: ShardStorage,
    compute_dtype: str | None = None,
) -> BlockWork:
    """Compute operations, bytes read and written, and duration of a block; zero where the index part is empty."""
    graph = program.abstract
    block = graph.by_site[step.site]
    inputs, outputs = graph.input_types(block), graph.output_types(block)
    work = work_of(operator_named(step.definition.operator), step.definition, inputs, outputs)
    sizes = step.index[..., 1] - step.index[..., 0]
    points = np.prod(sizes, axis=1, dtype=np.int64)
    signature = step.definition.signature
    names = [d.name for d in signature.dims] if signature is not None else []
    flops = _given(step, "flops", sizes)
    if flops is None:
        flops = flops_of(work, names, sizes)
    accessed = _given(step, "bytes", sizes)
    if accessed is None:
        moves = work.kind != "none"
        accessed = _accessed_bytes(program, step, work, sizes, storage) if moves else np.zeros_like(points)
        accessed = np.where(points > 0, accessed, 0)
    dtype = work_dtype(inputs, outputs)
    parts = part_amounts(work, names, sizes)
    ticks = block_ticks(
        device,
        work.kind,
        flops,
        accessed,
        dtype,
        compute_dtype=compute_dtype,
        parts=parts,
        **kernel_sizes(work, names, sizes),
        kernel=work.kernel_class,
        supplied_s=supplied_seconds(step.definition.costs, names, sizes),
    )
    if states_seconds(step.definition.costs):
        return BlockWork(flops, accessed, ticks, SUPPLIED_CLASS)
    options = {"kernel": work.kernel_class, "compute_dtype": compute_dtype}
    return BlockWork(flops, accessed, ticks, block_class(device, work.kind, dtype, **options, parts=parts))


def _given(step: ComputeStep, resource: str, sizes: np.ndarray) -> np.ndarray | None:
    """Evaluate the program's own cost of a resource, `(devices,)`; None where it specifies none."""
    costs, signature = step.definition.costs, step.definition.signature
    cost = None if costs is None else costs.named(resource)
    if cost is None:
        return None
    return amounts(cost, [d.name for d in signature.dims] if signature is not None else [], sizes)


def relayout_ticks(program: ExplicitGraph, copy: CopyStep, device: Device, storage: ShardStorage) -> int:
    """Compute the time of a copy to read its part in one layout and write it in another; 0 where both are the same."""
    source, result = program.buffers[copy.source], program.buffers[copy.result]
    if source.layout == result.layout:
        return 0
    moved = storage.part_bytes(source, result.boxes) + storage.part_bytes(result, result.boxes)
    return int(block_ticks(device, "move", 0, moved, result.dtype).max())


def _accessed_bytes(
    program: ExplicitGraph, step: ComputeStep, work: Work, sizes: np.ndarray, storage: ShardStorage
) -> np.ndarray:
    signature = step.definition.signature
    names = [d.name for d in signature.dims] if signature is not None else []
    total = np.zeros(len(sizes), dtype=np.int64)
    for position, read in enumerate(step.reads):
        if position in work.reads:
            counted = [names.index(name) for name in work.reads[position]]
            elements = np.prod(sizes[:, counted], axis=1, dtype=np.int64)
        else:
            elements = volumes(read.wanted)
        buffer = program.buffers[read.buffer]
        total += storage.accessed_bytes(buffer, read.part, elements * item_bytes(buffer.dtype))
    for key in step.outputs:
        total += storage.part_bytes(program.buffers[key], program.buffers[key].boxes)
    return total
