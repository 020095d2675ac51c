"""Dimension orders in which a block may read and produce its tensors, on a device with a native tiled layout.

Blocks that map elements one to one compute in lockstep: the same dimensions run along rows and columns of all
their tensors. Contractions and reductions take each tensor in a dimension order of its own. Everything may stay in the
dimension order of the program. Used by `costmodel.strategies` only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from tapestry.hardware.layouts.dimension_order import (
    DimensionOrder,
    dimension_order_of,
    parse_dimension_order,
)
from tapestry.hardware.layouts.native import (
    Native,
    candidate_dimension_orders,
    canonical_dimension_order,
    stored_bytes,
)
from tapestry.teg.graph import Definition, TensorType
from tapestry.teg.operators.operator import Work
from tapestry.teg.signature import PARALLEL, rows_of
from tapestry.teg.views import RootRow

CHOICES_PER_CLASS = 16  # choices per class of blocks
LARGEST_PRODUCT = 4096  # combinations that are looked at
Dims = tuple[int, ...]


class DimensionOrders(NamedTuple):
    """The dimension orders in which a block reads the roots of its inputs and produces its outputs."""

    reads: tuple[str, ...]
    makes: tuple[str, ...]


class TensorAccess(NamedTuple):
    """A tensor that a block reads or produces: its stored shape and type, and the index dimension of each dimension."""

    shape: tuple[int, ...]
    dtype: str
    dims: Dims


def program_dimension_orders(inputs: int, outputs: int) -> DimensionOrders:
    """Return the choice that keeps every tensor in the dimension order of the program."""
    return DimensionOrders(("",) * inputs, ("",) * outputs)


def dimension_order_choices(
    definition: Definition,
    work: Work,
    reads: Sequence[tuple[tuple[int, ...], Sequence[RootRow]]],
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    native: Native,
) -> list[DimensionOrders]:
    """List the choices of a class of blocks, the program's own order first; `reads` are shape and rows of each root."""
    default = program_dimension_orders(len(inputs), len(outputs))
    signature = definition.signature
    if native.tiles is None or signature is None or not (inputs or outputs):
        return [default]
    read = [
        TensorAccess(s, t.dtype, tuple(r.dim for r in rows))
        for (s, rows), t in zip(reads, inputs, strict=True)
    ]
    made = [
        TensorAccess(t.shape, t.dtype, tuple(-1 if r is None else r.dim for r in rows_of(p)))
        for t, p in zip(outputs, signature.outputs, strict=True)
    ]
    found: Iterator[tuple[str, ...]]
    reduces = any(d.kind != PARALLEL for d in signature.dims)
    if work.reads:
        found = ((("",) * len(inputs)) + orders for orders in _free([], made, native, ()))
    elif work.kind == "contraction":
        found = _free(read, made, native, tuple(work.roles.get(d.name, "") for d in signature.dims))
    elif work.contracts:  # the steps of a fused block distinguish all its dimensions
        found = _free(read, made, native, tuple(d.name for d in signature.dims))
    elif reduces:
        found = _free(read, made, native, tuple(d.kind for d in signature.dims))
    else:
        found = _lockstep(read, made, native)
    choices = [DimensionOrders(o[: len(inputs)], o[len(inputs) :]) for o in found]
    return [default, *(c for c in dict.fromkeys(choices) if c != default)][:CHOICES_PER_CLASS]


def _free(
    read: Sequence[TensorAccess], made: Sequence[TensorAccess], native: Native, roles: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """Yield every combination of the tensors' candidate dimension orders, the least padded combinations first.

    Index dimensions of one role (rows, columns, reduced, batch) may run on as one along a tile's axis; those of
    different roles may not, since the block distinguishes them.
    """
    options = []
    for tensor in (*read, *made):
        sizes = np.array(tensor.shape, dtype=np.int64)
        texts = [
            t
            for t in candidate_dimension_orders(native, tensor.shape, tensor.dtype)
            if not t or _apart(tensor, t, roles)
        ]
        options.append([(int(stored_bytes(native, t, sizes, tensor.dtype)), t) for t in texts])
    combined = islice(product(*options), LARGEST_PRODUCT)
    for choice in sorted(combined, key=lambda c: sum(size for size, _ in c)):
        yield tuple(text for _, text in choice)


def _apart(tensor: TensorAccess, text: str, roles: Sequence[str]) -> bool:
    """Return whether columns and rows each run along index dimensions of one role; True where there are no roles."""
    order = parse_dimension_order(text, len(tensor.shape))
    along = ([tensor.dims[d] for d in dims if tensor.dims[d] >= 0] for dims in (order.columns, order.rows))
    return not roles or all(len({roles[dim] for dim in dims}) <= 1 for dims in along)


def _lockstep(
    read: Sequence[TensorAccess], made: Sequence[TensorAccess], native: Native
) -> Iterator[tuple[str, ...]]:
    """Yield the orders of the largest tensor, with the same index dimensions along rows and columns of the others."""
    tensors = (*read, *made)
    anchor = max((*made, *read), key=lambda t: int(np.prod(t.shape, dtype=np.int64)))
    for text in candidate_dimension_orders(native, anchor.shape, anchor.dtype):
        order = parse_dimension_order(text, len(anchor.shape))
        columns = tuple(anchor.dims[d] for d in order.columns)
        rows = tuple(anchor.dims[d] for d in order.rows)
        yield tuple(_induced(t, columns, rows) for t in tensors)


def _induced(tensor: TensorAccess, columns: Dims, rows: Dims) -> str:
    """Infer the dimension order of a tensor whose columns and rows run along these index dimensions it has."""
    along = {dim: d for d, dim in enumerate(tensor.dims) if dim >= 0 and tensor.shape[d] > 1}
    mine = tuple(along[dim] for dim in columns if dim in along)
    if not mine:
        return ""
    beside = tuple(along[dim] for dim in rows if dim in along)
    order: DimensionOrder = canonical_dimension_order(
        dimension_order_of(len(tensor.shape), mine, beside), tensor.shape
    )
    return str(order)
