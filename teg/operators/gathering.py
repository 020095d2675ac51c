"""Gathers: slices of a table chosen by an array of positions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from teg.graph import Attributes, Definition, TensorType, attributes
from teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from teg.operators.reading import canonical_axis, dim_names, expect_inputs, settings
from teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from teg.zspace import ZRange

# The name of the index dimension that runs over the table's entries.
ENTRIES = "v"


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis",))
    expect_inputs(inputs, ("table", "indices"))
    table, indices = inputs
    axis = canonical_axis(given["axis"], len(table.shape))
    if indices.dtype not in ("int32", "int64"):
        raise ValueError(f"indices must be int32 or int64, not {indices.dtype}")
    result = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
    count, rank = len(indices.shape), len(result)
    monoid = "any" if table.dtype == "bool" else "sum"
    dims = (
        *(IndexDim(name, size, PARALLEL) for name, size in zip(dim_names(rank), result, strict=True)),
        IndexDim(ENTRIES, table.shape[axis], monoid),
    )
    before, after = range(axis), range(axis + count, rank)
    table_rows = [Row(k, 1, 0, 1) for k in (*before, rank, *after)]
    index_rows = [Row(k, 1, 0, 1) for k in range(axis, axis + count)]
    written = [Row(k, 1, 0, 1) for k in range(rank)]
    signature = Signature(
        dims,
        (projection(table_rows, rank + 1), projection(index_rows, rank + 1)),
        (projection(written, rank + 1),),
    )
    return Inferred(signature, (TensorType(result, table.dtype),))


def _evaluate(definition: Definition, index: ZRange, operands: Sequence[Operand]) -> tuple[np.ndarray, ...]:
    """Over a part of the table, positions outside it contribute zero."""
    assert definition.signature is not None
    table, positions, axis = operands[0].array, operands[1].array, definition["axis"]
    size = definition.signature.dims[-1].size
    if positions.size and not (-size <= positions.min() and positions.max() < size):
        raise ValueError(
            f"indices must lie in [{-size}, {size}), not in [{positions.min()}, {positions.max()}]"
        )
    wrapped = np.where(positions < 0, positions + size, positions)
    start, end = index.start[-1], index.end[-1]
    if (start, end) == (0, size):
        return (np.asarray(np.take(table, wrapped, axis=axis)),)
    inside = (wrapped >= start) & (wrapped < end)
    found = np.take(table, np.where(inside, wrapped - start, 0), axis=axis)
    mask = inside.reshape((*(1,) * axis, *inside.shape, *(1,) * (table.ndim - axis - 1)))
    return (np.asarray(np.where(mask, found, np.zeros((), table.dtype))),)


def _work(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    rank = len(inputs[0].shape) + len(inputs[1].shape) - 1
    return Work("move", reads={0: dim_names(rank)})


GATHER = Operator(
    name="gather",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample(attributes(axis=0), (TensorType((7, 4), "float32"), TensorType((2, 3), "int64"))),
        OperatorExample(attributes(axis=1), (TensorType((2, 5, 3), "int32"), TensorType((4,), "int32"))),
        OperatorExample(attributes(axis=0), (TensorType((6,), "bool"), TensorType((), "int64"))),
    ),
)

GATHERING: tuple[Operator, ...] = (GATHER,)
