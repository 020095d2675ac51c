"""Arg-reductions and arg-sorts: the position of the greatest element, and of those first when sorted.

NaN is greatest when sorted and found first by either arg-reduction, as in numpy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import accumulation, numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, canonical_axis, expect_inputs, settings
from tapestry.teg.signature import Row, Signature, projection
from tapestry.teg.zspace import ZRange

KINDS = ("max", "min")


def _infer_arg_reduce(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis", "kind"), ("last",))
    axis = _ordered_axis(given["axis"], inputs)
    shape = inputs[0].shape
    if given["kind"] not in KINDS:
        raise ValueError(f"attribute 'kind' must be one of {', '.join(KINDS)}, not {given['kind']!r}")
    _check_flag("last", given.get("last", False))
    if shape[axis] == 0:
        raise ValueError(f"there is no {given['kind']} of no elements: axis {axis} of {shape}")
    dims, rows = axiswise(shape, whole=(axis,))
    written = projection([*rows[:axis], *rows[axis + 1 :]], len(dims))
    result = TensorType((*shape[:axis], *shape[axis + 1 :]), "int64")
    return Inferred(Signature(dims, (projection(rows, len(dims)),), (written,)), (result,))


def _ordered_axis(axis: object, inputs: Sequence[TensorType]) -> int:
    expect_inputs(inputs, ("value",))
    if numpy_dtype(inputs[0].dtype).kind == "c":
        raise ValueError(f"elements must have an order, which {inputs[0].dtype} has not")
    return canonical_axis(axis, len(inputs[0].shape))


def _check_flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"attribute {name!r} must be True or False, not {value!r}")


def _evaluate_arg_reduce(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array, axis = operands[0].array, definition["axis"]
    array = xp.cast(array, accumulation(xp.dtype_of(array)))
    find = xp.argmax if definition["kind"] == "max" else xp.argmin
    if not definition.get("last", False):
        return (find(array, axis),)
    return (xp.elementwise("sub", array.shape[axis] - 1, find(xp.flip(array, axis), axis)),)


def _infer_arg_sort(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis", "count", "largest"), ("stable",))
    axis = _ordered_axis(given["axis"], inputs)
    shape, count = inputs[0].shape, given["count"]
    for name in ("largest", "stable"):
        _check_flag(name, given.get(name, True))
    if not isinstance(count, int) or isinstance(count, bool) or not 0 <= count <= shape[axis]:
        raise ValueError(f"attribute 'count' must be a number from 0 to {shape[axis]}, not {count!r}")
    dims, rows = axiswise(shape, whole=(axis,))
    written = [*rows[:axis], Row(-1, 0, 0, count), *rows[axis + 1 :]]
    result = TensorType((*shape[:axis], count, *shape[axis + 1 :]), "int64")
    signature = Signature(dims, (projection(rows, len(dims)),), (projection(written, len(dims)),))
    return Inferred(signature, (result,))


def _evaluate_arg_sort(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    """Compute the sorting positions; equal elements come in the order of their positions (whatever `stable` says)."""
    array, axis = operands[0].array, definition["axis"]
    lines = xp.cast(array, accumulation(xp.dtype_of(array)))
    if definition["largest"]:
        order = array.shape[axis] - 1 - xp.flip(xp.argsort(xp.flip(lines, axis), axis), axis)
    else:
        order = xp.argsort(lines, axis)
    return (order[(*(slice(None),) * axis, slice(definition["count"]))],)


def _line(definition: Definition, inputs: Sequence[TensorType]) -> int:
    """Return the length of the line that one index point sorts."""
    return inputs[0].shape[int(definition["axis"])]


def _work_arg_sort(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    size = _line(definition, inputs)
    return Work("vector", flops=size * max(1.0, math.log2(max(size, 1))), kernel="sort", row=size)


def _work_arg_reduce(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    size = _line(definition, inputs)
    return Work("vector", flops=float(size), kernel="reduction", row=size)


_EXAMPLE = TensorType((4, 5, 3), "float32")

ARG_REDUCE = Operator(
    name="arg_reduce",
    infer=_infer_arg_reduce,
    evaluate=_evaluate_arg_reduce,
    work=_work_arg_reduce,
    examples=(
        OperatorExample(attributes(axis=1, kind="max"), (_EXAMPLE,)),
        OperatorExample(attributes(axis=2, kind="min"), (_EXAMPLE,)),
        OperatorExample(attributes(axis=0, kind="max", last=True), (TensorType((5, 7), "bool"),)),
        OperatorExample(attributes(axis=0, kind="min", last=True), (TensorType((9,), "int32"),)),
        OperatorExample(attributes(axis=1, kind="max"), (TensorType((3, 6), "bfloat16"),)),
    ),
)

ARG_SORT = Operator(
    name="arg_sort",
    infer=_infer_arg_sort,
    evaluate=_evaluate_arg_sort,
    work=_work_arg_sort,
    examples=(
        OperatorExample(attributes(axis=1, count=5, largest=False), (_EXAMPLE,)),
        OperatorExample(attributes(axis=0, count=2, largest=True, stable=True), (_EXAMPLE,)),
        OperatorExample(attributes(axis=1, count=3, largest=True), (TensorType((3, 8), "int8"),)),
        OperatorExample(attributes(axis=0, count=0, largest=True), (TensorType((4, 2), "bfloat16"),)),
        OperatorExample(attributes(axis=1, count=4, largest=False), (TensorType((2, 6), "bool"),)),
    ),
)

ORDERING: tuple[Operator, ...] = (ARG_REDUCE, ARG_SORT)
