"""Gathers: slices of a table chosen by an array of positions."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.indexing import Indexing, indexing, wrapped
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import dim_names, expect_inputs, settings
from tapestry.teg.signature import PARALLEL, IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange

# The name of the index dimension that runs over the table's entries.
ENTRIES = "v"

# What positions outside the table do: they are errors, are moved to its border, or give zero.
MODES = ("strict", "clip", "fill")


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis",), ("aligned", "mode"))
    expect_inputs(inputs, ("table", "indices"))
    table, indices = inputs
    plan = indexing(given["axis"], given.get("aligned", ()), table.shape, indices.shape, indices.dtype)
    if given.get("mode", "strict") not in MODES:
        raise ValueError(f"attribute 'mode' must be one of {', '.join(MODES)}, not {given['mode']!r}")
    result = plan.shape(table.shape, indices.shape)
    rank = len(result)
    monoid = "any" if table.dtype == "bool" else "sum"
    dims = (
        *(IndexDim(name, size, PARALLEL) for name, size in zip(dim_names(rank), result, strict=True)),
        IndexDim(ENTRIES, table.shape[plan.axis], monoid),
    )
    table_rows = [Row(rank if k == plan.axis else plan.place(k), 1, 0, 1) for k in range(len(table.shape))]
    index_rows = [Row(_dim_of(plan, k), 1, 0, 1) for k in range(len(indices.shape))]
    written = [Row(k, 1, 0, 1) for k in range(rank)]
    signature = Signature(
        dims,
        (projection(table_rows, rank + 1), projection(index_rows, rank + 1)),
        (projection(written, rank + 1),),
    )
    return Inferred(signature, (TensorType(result, table.dtype),))


def _dim_of(plan: Indexing, dim: int) -> int:
    """Return the dimension of the gathered array along which a dimension of the indices runs."""
    partner = plan.partner(dim)
    return plan.axis + plan.free.index(dim) if partner is None else plan.place(partner)


def _evaluate(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    """Gather slices; over a part of the table, positions outside it contribute zero."""
    assert definition.signature is not None
    table, positions = operands[0].array, operands[1].array
    mode, size = definition.get("mode", "strict"), definition.signature.dims[-1].size
    plan = indexing(
        definition["axis"],
        definition.get("aligned", ()),
        table.shape,
        positions.shape,
        xp.dtype_of(positions),
    )
    places = wrapped(xp, positions, size, mode)
    everywhere = table.shape[plan.axis] == size and mode != "fill"
    if everywhere and not plan.aligned:
        return (xp.take(table, places, plan.axis),)
    flat, rows = plan.flat_positions(xp, places), plan.flat_table(xp, table)
    start, end = index.start[-1], index.end[-1]
    inside = (flat >= start) & (flat < end)
    found = xp.take_rows(rows, xp.elementwise("where", inside, flat - start, 0))
    if not everywhere:
        found = xp.elementwise(
            "where", xp.expand_dims(inside, (2,)), found, xp.constant(0, xp.dtype_of(table))
        )
    return (plan.gathered(xp, found, plan.shape(table.shape, positions.shape)),)


def _work(definition: Definition, _: Sequence[TensorType], outputs: Sequence[TensorType]) -> Work:
    return Work("move", reads={0: dim_names(len(outputs[0].shape))}, kernel="gather")


GATHER = Operator(
    name="gather",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample(attributes(axis=0), (TensorType((7, 4), "float32"), TensorType((2, 3), "int64"))),
        OperatorExample(attributes(axis=1), (TensorType((2, 5, 3), "int32"), TensorType((4,), "int32"))),
        OperatorExample(attributes(axis=0), (TensorType((6,), "bool"), TensorType((), "int64"))),
        OperatorExample(
            attributes(axis=1, aligned=((0, 0), (2, 2))),
            (TensorType((4, 5, 3), "float32"), TensorType((4, 2, 3), "int64")),
        ),
        OperatorExample(
            attributes(axis=2, aligned=((1, 0),)),
            (TensorType((2, 4, 5, 3), "bfloat16"), TensorType((4, 6), "int32")),
        ),
        OperatorExample(
            attributes(axis=1, aligned=((0, 2), (2, 0)), mode="clip"),
            (TensorType((4, 5, 3), "bool"), TensorType((3, 6, 4), "int64")),
        ),
        OperatorExample(
            attributes(axis=0, mode="fill"), (TensorType((5, 3), "float32"), TensorType((7,), "uint8"))
        ),
    ),
)

GATHERING: tuple[Operator, ...] = (GATHER,)
