"""The cost of one block on each device: operations, bytes accessed, ticks; from index parts and read ranges.

The bytes that a block reads follow the convention "declared reads" of `docs/sharding.md`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import NamedTuple

import numpy as np

from tapestry.hardware.device import Device
from tapestry.hardware.simulator.storage import ShardStorage
from tapestry.hardware.timing import NO_CLASS, SUPPLIED_CLASS, TimeClass, block_class, block_ticks, energy_pj
from tapestry.teg.costs import amounts, states_seconds, supplied_seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Work, flops_of, kernel_sizes, part_amounts, work_dtype, work_of
from tapestry.teg.sharding.expand import ComputeStep, CopyStep, ExplicitGraph
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.result_cache import ResultCache
from tapestry.teg.sharding.spec import volumes


class BlockWork(NamedTuple):
    """The work of one block on every device, `(devices,)` each, and what its time has its error in common with.

    `energy_pj` is without idle power; None where the device lacks a figure for it.
    """

    flops: np.ndarray
    accessed_bytes: np.ndarray
    ticks: np.ndarray
    time_class: TimeClass = NO_CLASS
    energy_pj: np.ndarray | None = None


def known_work(
    program: ExplicitGraph,
    step: ComputeStep,
    device: Device,
    storage: ShardStorage,
    compute_dtype: str | None,
    cold: Set[str],
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
    cold_reads = tuple(tensor in cold for tensor in block.inputs)
    key = (
        "work",
        device,
        step.definition,
        types,
        cache.key_of(step.index),
        reads,
        written,
        compute_dtype,
        cold_reads,
        step.accumulates,
    )
    return cache.known(key, lambda: block_work(program, step, device, storage, compute_dtype, cold))


def block_work(
    program: ExplicitGraph,
    step: ComputeStep,
    device: Device,
    storage: ShardStorage,
    compute_dtype: str | None = None,
    cold: Set[str] = frozenset(),
) -> BlockWork:
    """Compute operations, bytes read and written, and duration of a block; zero where the index part is empty.

    Tensors in `cold` are read from memory even where the cache could hold them.
    """
    graph, buffers = program.abstract, program.buffers
    block = graph.by_site[step.site]
    inputs, outputs = graph.input_types(block), graph.output_types(block)
    work = work_of(
        operator_named(step.definition.operator),
        step.definition,
        inputs,
        outputs,
        accumulates=bool(step.accumulates),
    )
    sizes = step.index[..., 1] - step.index[..., 0]
    points = np.prod(sizes, axis=1, dtype=np.int64)
    signature = step.definition.signature
    names = [d.name for d in signature.dims] if signature is not None else []
    flops = _given(step, "flops", sizes)
    if flops is None:
        flops = flops_of(work, names, sizes)
    accessed = _given(step, "bytes", sizes)
    cold_bytes, written_bytes = np.zeros_like(points), np.zeros_like(points)
    if accessed is None:
        accessed = np.zeros_like(points)
        if work.kind != "none":
            read = _read_bytes(program, step, work, sizes, storage)
            written = (storage.part_bytes(buffers[key], buffers[key].boxes) for key in step.outputs)
            written_bytes = np.where(points > 0, sum(written, written_bytes), 0)
            accessed = np.where(points > 0, sum(read, accessed), 0) + written_bytes
            if step.accumulates:  # what is there already is read
                accessed += written_bytes
            from_memory = (size for size, t in zip(read, block.inputs, strict=True) if t in cold)
            cold_bytes = np.where(points > 0, sum(from_memory, cold_bytes), 0)
    dtype = work_dtype(inputs, outputs)
    parts = part_amounts(work, names, sizes)
    ticks = block_ticks(
        device,
        work.kind,
        flops,
        accessed,
        dtype,
        cold_bytes=cold_bytes,
        written_bytes=written_bytes,
        compute_dtype=compute_dtype,
        parts=parts,
        **kernel_sizes(work, names, sizes),
        kernel=work.kernel_class,
        supplied_s=supplied_seconds(step.definition.costs, names, sizes),
    )
    energy = (
        energy_pj(device, compute_dtype or dtype, flops, accessed, 0, kind=work.kind, parts=parts)
        if device.missing_energy_figure is None
        else None
    )
    if states_seconds(step.definition.costs):
        return BlockWork(flops, accessed, ticks, SUPPLIED_CLASS, energy)
    options = {"kernel": work.kernel_class, "compute_dtype": compute_dtype}
    time_class = block_class(device, work.kind, dtype, **options, parts=parts)
    return BlockWork(flops, accessed, ticks, time_class, energy)


def _given(step: ComputeStep, resource: str, sizes: np.ndarray) -> np.ndarray | None:
    """Evaluate the program's own cost of a resource, `(devices,)`; None where it specifies none."""
    costs, signature = step.definition.costs, step.definition.signature
    cost = None if costs is None else costs.named(resource)
    if cost is None:
        return None
    return amounts(cost, [d.name for d in signature.dims] if signature is not None else [], sizes)


def relayout_ticks(program: ExplicitGraph, copy: CopyStep, device: Device, storage: ShardStorage) -> int:
    """Compute the time of a copy to read its part in one layout and write it in another in the device's memory.

    0 where both are the same, or one is on the host.
    """
    source, result = program.buffers[copy.source], program.buffers[copy.result]
    if source.layout == result.layout or HOST in (source.layout, result.layout):
        return 0
    moved = storage.part_bytes(source, result.boxes) + storage.part_bytes(result, result.boxes)
    return int(block_ticks(device, "move", 0, moved, result.dtype).max())


def carried_parts(program: ExplicitGraph, copy: CopyStep) -> list[tuple[str, np.ndarray]]:
    """Return what a copy carries over the links to the hosts: the keys of buffers, and the bytes of parts `(devices,)`.

    Where it moves nothing between devices, that is the part that is needed; else what is sent comes from the host
    first, and what arrives goes there last.
    """
    ends = [key for key in (copy.source, copy.result) if program.buffers[key].layout == HOST]
    if ends and copy.plan.relayout:
        ends = [copy.result]
    buffers = ((key, program.buffers[key]) for key in ends)
    return [(key, volumes(b.boxes) * item_bytes(b.dtype)) for key, b in buffers]


def _read_bytes(
    program: ExplicitGraph, step: ComputeStep, work: Work, sizes: np.ndarray, storage: ShardStorage
) -> list[np.ndarray]:
    """Compute the bytes that each device reads of every input, `(devices,)` each."""
    signature = step.definition.signature
    names = [d.name for d in signature.dims] if signature is not None else []
    found = []
    for position, read in enumerate(step.reads):
        if position in work.reads:
            counted = [names.index(name) for name in work.reads[position]]
            elements = np.prod(sizes[:, counted], axis=1, dtype=np.int64)
        else:
            elements = volumes(read.wanted)
        buffer = program.buffers[read.buffer]
        found.append(storage.accessed_bytes(buffer, read.part, elements * item_bytes(buffer.dtype)))
    return found
