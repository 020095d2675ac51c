"""Costs of a block under each of its strategies on each device: vectorized, from the operator's marginal work."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.fold_loops import classes_of, partitions_of
from tapestry.costmodel.resources import Resource, counted
from tapestry.hardware.device import Device
from tapestry.hardware.layouts.native import accessed_bytes
from tapestry.hardware.timing import SUPPLIED_CLASS, TimeClass, block_class, block_ticks, energy_pj
from tapestry.teg.costs import amounts, states_seconds, supplied_seconds
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.graph import Block, Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import (
    Work,
    flops_of,
    kernel_sizes,
    own_work,
    part_amounts,
    work_dtype,
    work_of,
)
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import Split, chunk_bounds
from tapestry.teg.sharding.strategy import Strategy
from tapestry.teg.signature import Row, Signature, rows_of


@dataclass(frozen=True)
class BlockCosts:
    """The costs of a block under each of its strategies.

    `ticks` (slowest device) and `energy_pj` (sum over devices), `(strategies,)`; `flops` `(strategies, devices)`;
    `resources` those of the program's own that are counted, `(resources, strategies, devices)`.
    """

    ticks: np.ndarray
    energy_pj: np.ndarray
    flops: np.ndarray
    resources: np.ndarray


class BlockStorage(NamedTuple):
    """The storage of a block's part of a tensor: `logical_bytes` and, by order, `stored_bytes`, `(strategies,
    devices)`.

    `chosen` names the dimension order of every choice.
    """

    logical_bytes: np.ndarray
    stored_bytes: Mapping[str, np.ndarray]
    chosen: tuple[str, ...]


def block_costs(
    definition: Definition,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    strategies: Sequence[Strategy],
    mesh_shape: MeshShape,
    device: Device,
    compute_dtype: str | None = None,
    storage: Sequence[BlockStorage] = (),
    resources: Sequence[Resource] = (),
    cold: Collection[int] = (),
    of_round: Signature | None = None,
    accumulates: bool = False,
) -> BlockCosts:
    """Compute the costs of one class of blocks under all its strategies, and of `resources` that the program prices.

    `storage` holds per input and output the memory that its part takes, under every choice of dimension orders; the
    rows of the result are then those of every strategy with every choice. `cold` are the positions of inputs that are
    read from memory even where the cache could hold them. `of_round` is the signature with the index space of one
    round, if that is not the block's; one that `accumulates` also reads what it writes to.
    """
    bounds, numbers = _ranges(of_round or definition.signature, strategies, mesh_shape)
    costs = partial(
        costs_of_parts,
        definition,
        inputs,
        outputs,
        device=device,
        compute_dtype=compute_dtype,
        storage=storage,
        resources=resources,
        cold=cold,
        accumulates=accumulates,
    )
    if storage:
        return costs(np.ascontiguousarray(bounds[numbers].transpose(0, 2, 1, 3)))
    # parts that are equally large in all respects cost the same: one device of each class is counted
    at, number = classes_of(numbers, _partitions(definition, inputs, outputs, bounds, numbers))
    parts = costs(bounds[numbers[at[:, 0]], at[:, 1:]][:, None])
    return BlockCosts(
        parts.ticks[number].max(axis=1),
        parts.energy_pj[number].sum(axis=1),
        parts.flops[:, 0][number],
        parts.resources[..., 0][:, number],
    )


def costs_of_parts(
    definition: Definition,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    index: np.ndarray,
    device: Device,
    compute_dtype: str | None = None,
    storage: Sequence[BlockStorage] = (),
    resources: Sequence[Resource] = (),
    cold: Collection[int] = (),
    accumulates: bool = False,
) -> BlockCosts:
    """Compute the costs of one class of blocks for parts of its index space, `(strategies, devices, dims, 2)`.

    The other arguments are those of `block_costs`.
    """
    work = work_of(operator_named(definition.operator), definition, inputs, outputs, accumulates=accumulates)
    sizes = index[..., 1] - index[..., 0]
    points = np.prod(sizes, axis=-1, dtype=np.int64)
    names = [d.name for d in definition.signature.dims] if definition.signature is not None else []
    flops = given(definition, "flops", sizes)
    if flops is None:
        flops = flops_of(work, names, sizes)
    moved = given(definition, "bytes", sizes)
    choices = len(storage[0].chosen) if storage else 1
    cold_bytes, written_bytes = np.zeros((), dtype=np.int64), np.zeros((), dtype=np.int64)
    if moved is None:
        parts = memory_parts(definition, work, index, sizes, inputs, outputs)
        moves = (points > 0) & (work.kind != "none")
        again = range(len(inputs), len(parts)) if accumulates else ()
        moved = _chosen(parts, storage, (*range(len(parts)), *again), moves)
        if cold:
            cold_bytes = _chosen(parts, storage, cold, moves)
        if device.fresh_bytes is not None or work.kernel_class == "gated":
            written_bytes = _chosen(parts, storage, range(len(inputs), len(parts)), moves)
    else:
        moved = np.repeat(moved, choices, axis=0)
    flops, sizes = np.repeat(flops, choices, axis=0), np.repeat(sizes, choices, axis=0)
    dtype = work_dtype(inputs, outputs)
    steps = part_amounts(work, names, sizes)
    ticks = block_ticks(
        device,
        work.kind,
        flops,
        moved,
        dtype,
        **kernel_sizes(work, names, sizes),
        kernel=work.kernel_class,
        compute_dtype=compute_dtype,
        cold_bytes=cold_bytes,
        written_bytes=written_bytes,
        parts=steps,
        supplied_s=supplied_seconds(definition.costs, names, sizes),
    )
    energy = (
        energy_pj(device, compute_dtype or dtype, flops, moved, 0, kind=work.kind, parts=steps)
        if device.missing_energy_figure is None
        else ticks * 0
    )
    own = [counted(definition, resource, sizes) for resource in resources]
    own_costs = np.array(own, dtype=np.int64).reshape(len(own), *flops.shape)
    return BlockCosts(ticks.max(axis=1), energy.sum(axis=1), flops, own_costs)


def time_class_of(
    definition: Definition,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    device: Device,
    compute_dtype: str | None = None,
    *,
    accumulates: bool = False,
) -> TimeClass:
    """Return what the time of a class of blocks has its error in common with."""
    if states_seconds(definition.costs):
        return SUPPLIED_CLASS
    work = work_of(operator_named(definition.operator), definition, inputs, outputs, accumulates=accumulates)
    dims = definition.signature.dims if definition.signature is not None else ()
    parts = part_amounts(work, [d.name for d in dims], np.array([d.size for d in dims], dtype=np.int64))
    options = {"kernel": work.kernel_class, "compute_dtype": compute_dtype}
    return block_class(device, work.kind, work_dtype(inputs, outputs), **options, parts=parts)


def given(definition: Definition, resource: str, sizes: np.ndarray) -> np.ndarray | None:
    """Evaluate a resource that the program prices itself, for parts of `sizes` `(..., dims)`; None if it does not."""
    cost = definition.costs.named(resource) if definition.costs is not None else None
    if cost is None:
        return None
    dims = definition.signature.dims if definition.signature is not None else ()
    return amounts(cost, [d.name for d in dims], sizes)


def _ranges(
    signature: Signature | None, strategies: Sequence[Strategy], mesh_shape: MeshShape
) -> tuple[np.ndarray, np.ndarray]:
    """Return index ranges `(ranges, devices, 2)`, each once, and which each strategy has, `(strategies, dims)`."""
    dims = signature.dims if signature is not None else ()
    known: dict[tuple[int, int, Split], int] = {}
    sizes = [d.size for d in dims]
    numbers = np.array(
        [
            [known.setdefault(key, len(known)) for key in zip(range(len(dims)), sizes, s.splits, strict=True)]
            for s in strategies
        ],
        dtype=np.int64,
    ).reshape(len(strategies), len(dims))
    bounds = np.zeros((len(known), mesh_shape.device_count, 2), dtype=np.int64)
    for i, (_, size, split) in enumerate(known):
        bounds[i] = chunk_bounds(size, split, mesh_shape)
    return bounds, numbers


def _partitions(
    definition: Definition,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    bounds: np.ndarray,
    numbers: np.ndarray,
) -> np.ndarray:
    """Number the devices whose parts of an index range, and of what it reaches of tensors, are equally long.

    `bounds` `(ranges, devices, 2)` are of one dimension each. Returns: `(ranges, devices)`.
    """
    signature = definition.signature
    found = np.zeros(bounds.shape[:2], dtype=np.int64)
    if signature is None:
        return found
    sides = zip((*signature.inputs, *signature.outputs), (*inputs, *outputs), strict=True)
    rows = [each for side, kind in sides for each in zip(rows_of(side), kind.shape, strict=True)]
    for k in range(numbers.shape[1]):
        mine = {(row, size) for row, size in rows if row is not None and row.dim == k}
        some = np.unique(numbers[:, k])
        ranges = bounds[some]
        lengths = [_reached(row, size, ranges) for row, size in mine]
        found[some] = partitions_of(np.stack([ranges[..., 1] - ranges[..., 0], *lengths], axis=-1))
    return found


def _reached(row: Row, size: int, ranges: np.ndarray) -> np.ndarray:
    """Count the elements along a dimension of `size` that index ranges `(..., 2)` reach."""
    first, last = ranges[..., 0] * row.stride, (ranges[..., 1] - 1) * row.stride
    low = np.clip(np.minimum(first, last) + row.offset, 0, size)
    high = np.clip(np.maximum(first, last) + row.offset + row.extent, 0, size)
    return np.asarray(np.maximum(high - low, 0))


def _chosen(
    parts: Sequence[np.ndarray], storage: Sequence[BlockStorage], counted: Collection[int], moves: np.ndarray
) -> np.ndarray:
    """Add up the bytes of those `parts` that are counted where a device `moves` any, under every choice of orders.

    Returns: `(strategies * choices, devices)`, each strategy followed by its choices.
    """
    found = []
    for choice in range(len(storage[0].chosen) if storage else 1):
        total = np.zeros(moves.shape, dtype=np.int64)
        for k in counted:
            size = parts[k]
            if storage:
                stored = storage[k]
                size = accessed_bytes(size, stored.stored_bytes[stored.chosen[choice]], stored.logical_bytes)
            total = total + size
        found.append(np.where(moves, total, 0))
    return np.stack(found, axis=1).reshape(-1, moves.shape[-1])


def memory_parts(
    definition: Definition,
    work: Work,
    index: np.ndarray,
    sizes: np.ndarray,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
) -> list[np.ndarray]:
    """Compute the bytes each device reads of every input and writes of every output, `(strategies, devices)` each.

    What it reads follows the convention "declared reads" of `docs/sharding.md`.
    """
    signature = definition.signature
    if signature is None:
        return [np.full(sizes.shape[:-1], t.size_bytes, dtype=np.int64) for t in (*inputs, *outputs)]
    names = [d.name for d in signature.dims]
    parts = []
    for k, kind in enumerate(inputs):
        if k in work.reads:
            elements = np.prod([sizes[..., names.index(n)] for n in work.reads[k]], axis=0, dtype=np.int64)
        else:
            elements = _projected_volume(rows_of(signature.inputs[k]), kind.shape, index)
        parts.append(elements * item_bytes(kind.dtype))
    for k, kind in enumerate(outputs):
        elements = _projected_volume(rows_of(signature.outputs[k]), kind.shape, index)
        parts.append(elements * item_bytes(kind.dtype))
    return parts


def _projected_volume(rows: Sequence[Row | None], shape: tuple[int, ...], index: np.ndarray) -> np.ndarray:
    """Count the elements of the projected boxes clipped to a tensor of `shape`, `(strategies, devices)`."""
    volume = np.ones(index.shape[:2], dtype=np.int64)
    for row, size in zip(rows, shape, strict=True):
        if row is None:
            volume *= size
        elif row.dim < 0:
            volume *= max(0, min(row.offset + row.extent, size) - max(row.offset, 0))
        else:
            volume *= _reached(row, size, index[..., row.dim, :])
    return volume


def base_flops(graph: Graph) -> int:
    """Compute the flops of the abstract graph, unsharded."""
    return sum(
        _flops_in(graph, block) for block in graph.blocks if block.operator != "source" and not block.is_view
    )


class RepeatedWork(NamedTuple):
    """The blocks of a graph that compute again what earlier ones have: their number, the bytes of their results, flops.

    All of the unsharded graph. The bytes need not be stored between the two.
    """

    blocks: int
    bytes: int
    flops: int


def repeated_work(graph: Graph) -> RepeatedWork | None:
    """Count what a graph computes again; None where it stores everything."""
    repeated = [block for block in graph.blocks if block.repetition and not block.is_view]
    if not repeated:
        return None
    size_bytes = sum(graph.tensors[t].type.size_bytes for block in repeated for t in block.outputs)
    return RepeatedWork(len(repeated), size_bytes, sum(_flops_in(graph, block) for block in repeated))


def _flops_in(graph: Graph, block: Block) -> int:
    return _flops_of_block(block.definition, graph.input_types(block), graph.output_types(block))


@lru_cache(maxsize=1 << 14)
def _flops_of_block(
    definition: Definition, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]
) -> int:
    sizes = () if definition.signature is None else definition.signature.index_range.shape
    names = [] if definition.signature is None else [d.name for d in definition.signature.dims]
    shape = np.array(sizes, dtype=np.int64)
    priced = given(definition, "flops", shape)
    if priced is not None:
        return int(priced)
    work = own_work(operator_named(definition.operator), definition, inputs, outputs)
    return int(flops_of(work, names, shape))
