"""Views: selectors that move no data, as maps from the dimensions of a root tensor.

A `ViewMap` says for each dimension of the root which view dimension runs along it, with stride and
offset; dimensions of the view that no root dimension names are broadcast. Views of this form are closed
under composition, so a chain of views is one view of its root.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Graph
from tapestry.teg.signature import Row


class ViewDim(NamedTuple):
    """A view dimension; root coordinate = `stride * v + offset` for coordinate `v` of `dim` (-1: constant)."""

    dim: int
    stride: int
    offset: int


class ViewMap(NamedTuple):
    """A view given by a `ViewDim` per root dimension and the shape of the view."""

    dims: tuple[ViewDim, ...]
    shape: tuple[int, ...]

    def then(self, outer: ViewMap) -> ViewMap:
        """Compose with `outer`: return the view `outer` of this view, as a view of this view's root."""
        composed = []
        for d in self.dims:
            if d.dim < 0:
                composed.append(d)
                continue
            o = outer.dims[d.dim]
            composed.append(
                ViewDim(o.dim, d.stride * o.stride if o.dim >= 0 else 0, d.stride * o.offset + d.offset)
            )
        return ViewMap(tuple(composed), outer.shape)


def identity(shape: Sequence[int]) -> ViewMap:
    """Return the view that is equal to its root."""
    return ViewMap(tuple(ViewDim(k, 1, 0) for k in range(len(shape))), tuple(shape))


def permutation(shape: Sequence[int], order: Sequence[int]) -> ViewMap:
    """Build the view `numpy.transpose(x, order)`."""
    return ViewMap(
        tuple(ViewDim(list(order).index(k), 1, 0) for k in range(len(shape))), tuple(shape[k] for k in order)
    )


def parse(value: Sequence[Sequence[int]], shape: Sequence[int]) -> ViewMap:
    """Parse the view map of a view block's attributes `map` and `shape`."""
    return ViewMap(tuple(ViewDim(*d) for d in value), tuple(shape))


def root_of(graph: Graph, tensor: str) -> tuple[str, ViewMap]:
    """Return the tensor that stores `tensor`'s elements, and `tensor` as a view of it."""
    chain = []
    producer = graph.producers[tensor]
    while producer.is_view:
        chain.append(parse(producer.definition["map"], producer.definition["shape"]))
        tensor = producer.inputs[0]
        producer = graph.producers[tensor]
    view = identity(graph.tensors[tensor].shape)
    for step in reversed(chain):
        view = view.then(step)
    return tensor, view


class RootRow(NamedTuple):
    """The range of one dimension of a root tensor that a block reads through a view.

    For index `i` of index dimension `dim` (-1: none) the block reads `[stride * i + offset, ... + extent)`,
    clipped to `[low, high)`: what the view lets through.
    """

    dim: int
    stride: int
    offset: int
    extent: int
    low: int
    high: int


def pull_back(view: ViewMap, rows: Sequence[Row | None]) -> tuple[RootRow, ...]:
    """Convert rows over a view to rows over its root; inseparable rows read the whole dimension."""
    result = []
    for d in view.dims:
        if d.dim < 0:
            result.append(RootRow(-1, 0, d.offset, 1, d.offset, d.offset + 1))
            continue
        size = view.shape[d.dim]
        row = rows[d.dim]
        if size == 0 or (row is not None and row.extent == 0):
            result.append(RootRow(-1, 0, d.offset, 0, d.offset, d.offset))
            continue
        ends = (d.offset, d.stride * (size - 1) + d.offset)
        low, high = min(ends), max(ends) + 1
        if row is None:
            result.append(RootRow(-1, 0, low, high - low, low, high))
            continue
        near = d.stride * row.offset + d.offset
        span = abs(d.stride) * (row.extent - 1) + 1
        if d.stride < 0:
            near -= span - 1
        result.append(RootRow(row.dim, d.stride * row.stride, near, span, low, high))
    return tuple(result)


def apply_view(
    xp: ArrayNamespace,
    view: ViewMap,
    array: Array,
    start: Sequence[int],
    wanted: Sequence[tuple[int, int]],
) -> Array:
    """Extract the part `wanted` (per view dimension `[start, end)`) of a view from the box of its root at `start`."""
    shape = tuple(max(b - a, 0) for a, b in wanted)
    if 0 in shape:
        return xp.full(shape, 0, xp.dtype_of(array))
    slices: list[slice] = []
    for k, d in enumerate(view.dims):
        a, b = wanted[d.dim] if d.dim >= 0 else (0, 1)
        ends = d.stride * a + d.offset - start[k], d.stride * (b - 1) + d.offset - start[k]
        slices.append(slice(min(ends), max(ends) + 1, max(abs(d.stride), 1)))
    picked = array[tuple(slices)] if slices else array
    for k, d in enumerate(view.dims):
        if d.dim >= 0 and d.stride < 0:
            picked = xp.flip(picked, k)
    order = [d.dim for d in view.dims if d.dim >= 0]
    picked = xp.squeeze(picked, [k for k, d in enumerate(view.dims) if d.dim < 0])
    picked = xp.permute_dims(picked, sorted(range(len(order)), key=order.__getitem__))
    missing = [k for k in range(len(view.shape)) if k not in order]
    return xp.broadcast_to(xp.expand_dims(picked, missing), shape)
