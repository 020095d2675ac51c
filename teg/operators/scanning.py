"""Scans: each element of the result combines the elements up to its place along one dimension."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import accumulation, is_float, numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, canonical_axis, expect_inputs, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange

SCANS = ("sum", "prod", "max", "min", "logsumexp")


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis", "monoid"), ("exclusive", "reverse"))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    axis, monoid = canonical_axis(given["axis"], len(shape)), given["monoid"]
    if monoid not in SCANS:
        raise ValueError(f"attribute 'monoid' must be one of {', '.join(SCANS)}, not {monoid!r}")
    if monoid in ("sum", "prod") and dtype == "bool":
        raise ValueError(f"monoid {monoid!r} does not combine bool; 'max' is or, 'min' is and")
    if monoid in ("max", "min") and numpy_dtype(dtype).kind == "c":
        raise ValueError(f"monoid {monoid!r} needs an order, which {dtype} has not")
    if monoid == "logsumexp" and not is_float(dtype):
        raise ValueError(f"monoid 'logsumexp' needs a float type, not {dtype}")
    for name in ("exclusive", "reverse"):
        if not isinstance(given.get(name, False), bool):
            raise ValueError(f"attribute {name!r} must be True or False, not {given[name]!r}")
    dims, rows = axiswise(shape, whole=(axis,))
    same = projection(rows, len(dims))
    return Inferred(Signature(dims, (same,), (same,)), (inputs[0],))


def _evaluate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array, axis, monoid = operands[0].array, definition["axis"], definition["monoid"]
    dtype, size = xp.dtype_of(array), array.shape[axis]
    lines = xp.cast(array, accumulation(dtype))
    if definition.get("reverse", False):
        lines = xp.flip(lines, axis)
    if definition.get("exclusive", False) and size:
        first = xp.full(
            (*array.shape[:axis], 1, *array.shape[axis + 1 :]), identity(monoid, dtype), accumulation(dtype)
        )
        lines = xp.concat([first, lines[(*(slice(None),) * axis, slice(size - 1))]], axis)
    result = xp.scan(monoid, lines, axis)
    if definition.get("reverse", False):
        result = xp.flip(result, axis)
    return (xp.cast(result, dtype),)


def _work(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    """Return the work per point; the axis is no index dimension, so a point is a whole line."""
    each = 11.0 if definition["monoid"] == "logsumexp" else 1.0
    size = inputs[0].shape[definition["axis"]]
    return Work("vector", flops=each * size, kernel="scan", row=size)


SCAN = Operator(
    name="scan",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample(attributes(axis=1, monoid="sum"), (TensorType((4, 5, 3), "float32"),)),
        OperatorExample(
            attributes(axis=0, monoid="sum", exclusive=True, reverse=True), (TensorType((4, 5), "int8"),)
        ),
        OperatorExample(attributes(axis=1, monoid="sum", reverse=True), (TensorType((3, 7), "bfloat16"),)),
        OperatorExample(attributes(axis=0, monoid="prod"), (TensorType((5,), "int64"),)),
        OperatorExample(attributes(axis=1, monoid="max", exclusive=True), (TensorType((4, 6), "float32"),)),
        OperatorExample(attributes(axis=0, monoid="min"), (TensorType((3, 4), "bool"),)),
        OperatorExample(attributes(axis=2, monoid="logsumexp"), (TensorType((2, 3, 5), "float32"),)),
    ),
)

SCANNING: tuple[Operator, ...] = (SCAN,)
