"""Padding by a constant around a tensor, or by zeros between its elements. Every dimension can be sharded.

A shard of `pad` reads what of its range lies inside the tensor, which may be nothing. Padding by elements of
the tensor itself (`edge`, `reflect`, `wrap`, an index function) is a concatenation of views: `teg.padding_modes`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, canonical_axis, expect_inputs, integers, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange


def _move(_: Definition, __: Sequence[TensorType], ___: Sequence[TensorType]) -> Work:
    return Work("move")


def _infer_pad(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("low", "high"), ("value", "mode"))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    low, high = (integers(given[name], name, len(shape), least=0) for name in ("low", "high"))
    if given.get("mode", "constant") != "constant":
        raise ValueError(
            f"attribute 'mode' can only be 'constant' (others are concatenations of views), not {given['mode']!r}"
        )
    if not isinstance(given.get("value", 0), int | float | complex):
        raise ValueError(f"attribute 'value' must be a number, not {given['value']!r}")
    result = tuple(size + a + b for size, a, b in zip(shape, low, high, strict=True))
    dims, rows = axiswise(result)
    read = [r._replace(offset=-a) for r, a in zip(rows, low, strict=True)]
    signature = Signature(dims, (projection(read, len(dims)),), (projection(rows, len(dims)),))
    return Inferred(signature, (TensorType(result, dtype),))


def _evaluate_pad(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array, start = operands[0]
    first = [s + a - i for s, a, i in zip(start, definition["low"], index.start, strict=True)]
    return (xp.pad_to(array, index.shape, first, definition.get("value", 0)),)


def _pad_inputs(definition: Definition) -> tuple[tuple[int, ...], ...]:
    assert definition.signature is not None
    result, low, high = definition.signature.index_range.shape, definition["low"], definition["high"]
    return (tuple(n - a - b for n, a, b in zip(result, low, high, strict=True)),)


def _infer_dilate(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis", "factor"))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    axis = canonical_axis(given["axis"], len(shape))
    (factor,) = integers((given["factor"],), "factor", least=1)
    dims, rows = axiswise(shape)
    written = [r._replace(stride=factor, extent=factor) if k == axis else r for k, r in enumerate(rows)]
    result = (*shape[:axis], factor * shape[axis], *shape[axis + 1 :])
    signature = Signature(dims, (projection(rows, len(dims)),), (projection(written, len(dims)),))
    return Inferred(signature, (TensorType(result, dtype),))


def _evaluate_dilate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array, axis, factor = operands[0].array, definition["axis"], definition["factor"]
    before, size, after = array.shape[:axis], array.shape[axis], array.shape[axis + 1 :]
    apart = xp.expand_dims(array, (axis + 1,))
    spread = xp.pad_to(apart, (*before, size, factor, *after), (0,) * apart.ndim, 0)
    return (xp.reshape(spread, (*before, size * factor, *after)),)


_MATRIX = TensorType((4, 6), "float32")

PAD = Operator(
    name="pad",
    infer=_infer_pad,
    evaluate=_evaluate_pad,
    work=_move,
    input_shapes=_pad_inputs,
    examples=(
        OperatorExample(attributes(low=(0, 2), high=(0, 1), value=1.5), (_MATRIX,)),
        OperatorExample(attributes(low=(3, 0), high=(2, 9)), (TensorType((4, 6), "int8"),)),
        OperatorExample(attributes(low=(2, 1), high=(1, 3)), (TensorType((3, 0), "int64"),)),
        OperatorExample(attributes(low=(), high=()), (TensorType((), "int32"),)),
    ),
)

DILATE = Operator(
    name="dilate",
    infer=_infer_dilate,
    evaluate=_evaluate_dilate,
    work=_move,
    examples=(
        OperatorExample(attributes(axis=1, factor=3), (_MATRIX,)),
        OperatorExample(attributes(axis=0, factor=2), (TensorType((5,), "bfloat16"),)),
    ),
)

PADDING: tuple[Operator, ...] = (PAD, DILATE)
