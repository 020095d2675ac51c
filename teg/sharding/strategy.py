"""Sharding strategies of blocks: a split of each index dimension, which determines input and output specs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split, chunk_bounds
from tapestry.teg.signature import PARALLEL, Row, Signature, rows_of
from tapestry.teg.views import RootRow, pull_back, root_of


@dataclass(frozen=True)
class Strategy:
    """A `Split` for each index dimension; empty for a fixed block, which every device computes whole."""

    splits: tuple[Split, ...] = ()

    def __str__(self) -> str:
        return (
            "("
            + ", ".join(
                "*".join(s.axes) + (f"/{s.granule}" if s.granule != 1 else "") or "-" for s in self.splits
            )
            + ")"
        )


def splittable(signature: Signature | None) -> tuple[bool, ...]:
    """Return for each index dimension whether it may be split: all outputs must see it as whole granules, in order."""
    if signature is None:
        return ()
    allowed = [True] * len(signature.dims)
    for out in signature.outputs:
        for row, coefficients in zip(rows_of(out), out.start.matrix, strict=True):
            for k, c in enumerate(coefficients):
                if c != 0 and (row is None or row.stride != row.extent or row.offset != 0):
                    allowed[k] = False
    seen = [
        {k for k, d in enumerate(signature.dims) if any(r is not None and r.dim == k for r in rows_of(out))}
        for out in signature.outputs
    ]
    for k, d in enumerate(signature.dims):
        if d.kind == PARALLEL and any(k not in s for s in seen):
            allowed[k] = False
    return tuple(allowed)


def index_boxes(signature: Signature | None, strategy: Strategy, mesh_shape: MeshShape) -> np.ndarray:
    """Compute the part of the index space each device computes, `(devices, dims, 2)`."""
    dims = signature.dims if signature is not None else ()
    result = np.zeros((mesh_shape.device_count, len(dims), 2), dtype=np.int64)
    for k, (d, split) in enumerate(zip(dims, strategy.splits, strict=True)):
        result[:, k] = chunk_bounds(d.size, split, mesh_shape)
    return result


def producer_spec(signature: Signature | None, position: int, rank: int, strategy: Strategy) -> Spec:
    """Compute the spec in which a block leaves its output `position` (a tensor of `rank` dimensions)."""
    if signature is None:
        return Spec((WHOLE,) * rank)
    return written_spec(rows_of(signature.outputs[position]), signature, strategy)


def written_spec(rows: Sequence[Row | None], signature: Signature, strategy: Strategy) -> Spec:
    """Compute the spec in which a block leaves an output that it writes by `rows`."""
    dims = tuple(_written(row, strategy) for row in rows)
    partial: list[str] = []
    monoid = None
    for d, split in zip(signature.dims, strategy.splits, strict=True):
        if d.kind != PARALLEL and split.axes:
            if monoid not in (None, d.kind):
                raise ValueError(f"a strategy may not split reductions of two kinds, {monoid} and {d.kind}")
            partial.extend(split.axes)
            monoid = d.kind
    return Spec(dims, tuple(partial), monoid)


def _written(row: Row | None, strategy: Strategy) -> Split:
    if row is None or row.dim < 0:
        return WHOLE
    split = strategy.splits[row.dim]
    return Split(split.axes, split.granule * row.extent) if split.axes else WHOLE


def consumer_spec(
    rows: Sequence[RootRow],
    shape: Sequence[int],
    signature: Signature | None,
    strategy: Strategy,
    exact: bool = False,
) -> Spec:
    """Compute the consumer spec of a root tensor of `shape`, a block's input pulled back to `rows` over the root.

    `exact` states that no view of a larger buffer will do.
    """
    dims: list[Split] = []
    windows: list[ChunkWindow | None] = []
    for row, size in zip(rows, shape, strict=True):
        split = strategy.splits[row.dim] if row.dim >= 0 else WHOLE
        count = signature.dims[row.dim].size if signature is not None and row.dim >= 0 else 1
        if not split.axes:
            low, high = _reach(row, count)
            dims.append(WHOLE)
            windows.append(
                None if (low, high) == (0, size) else ChunkWindow(1, 0, low, high - low, low, high)
            )
        elif (
            row.stride == row.extent
            and row.offset == 0
            and (row.low, row.high) == (0, size) == (0, count * row.extent)
        ):
            dims.append(Split(split.axes, split.granule * row.extent))
            windows.append(None)
        else:
            dims.append(split)
            windows.append(ChunkWindow(count, row.stride, row.offset, row.extent, row.low, row.high))
    some = any(w is not None for w in windows)
    return Spec(tuple(dims), windows=tuple(windows) if some else (), exact=exact)


def _reach(row: RootRow, count: int) -> tuple[int, int]:
    """Compute the range read over all `count` index points."""
    last = row.stride * (count - 1)
    low = min(0, last) + row.offset
    high = max(0, last) + row.offset + row.extent
    start = max(low, row.low)
    return start, max(min(high, row.high), start)


@dataclass(frozen=True)
class Read:
    """The read of an input from the tensor that stores it: its root, and the rows by which the block reads it."""

    root: str
    rows: tuple[RootRow, ...]


def read_of(graph: Graph, block_site: str, position: int) -> Read:
    """Return the read of the block's input `position`, view chains resolved to the root."""
    key = "read", block_site, position
    found: Read | None = graph.kept.get(key)
    if found is None:
        found = graph.kept[key] = _read_of(graph, block_site, position)
    return found


def _read_of(graph: Graph, block_site: str, position: int) -> Read:
    block = graph.by_site[block_site]
    tensor = block.inputs[position]
    root, view = root_of(graph, tensor)
    if block.signature is None:
        rows: tuple[Row | None, ...] = tuple(Row(-1, 0, 0, n) for n in graph.tensors[tensor].shape)
    else:
        rows = rows_of(block.signature.inputs[position])
    return Read(root, pull_back(view, rows))
