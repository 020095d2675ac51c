"""Concatenation and interleaving: tensors one after the other, or elements in turn. Every dimension can be sharded.

The index space is that of the result. Input `k` of a concatenation is read at the result's coordinates moved
by its start; what sticks out of the input is clipped, so a shard reads of each input what falls into its range.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, canonical_axis, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange


def _move(_: Definition, __: Sequence[TensorType], ___: Sequence[TensorType]) -> Work:
    return Work("move")


def _joined_axis(attrs: Attributes, inputs: Sequence[TensorType], equal: bool) -> int:
    """Return the axis after checking that all inputs agree except along it (or, `equal`, altogether)."""
    given = settings(attrs, ("axis",))
    if not inputs:
        raise ValueError("expected at least one input, not 0")
    shape, dtype = inputs[0]
    axis = canonical_axis(given["axis"], len(shape))
    for other in inputs[1:]:
        fits = len(other.shape) == len(shape) and all(
            a == b for k, (a, b) in enumerate(zip(shape, other.shape, strict=True)) if k != axis or equal
        )
        if not fits or other.dtype != dtype:
            but = "" if equal else f" but for axis {axis}"
            raise ValueError(f"inputs must agree{but}: {inputs[0]} and {other} do not")
    return axis


def _infer_concat(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    axis = _joined_axis(attrs, inputs, equal=False)
    shape, dtype = inputs[0]
    starts = list(accumulate((t.shape[axis] for t in inputs), initial=0))
    result = (*shape[:axis], starts[-1], *shape[axis + 1 :])
    dims, rows = axiswise(result)
    parts = []
    for start in starts[:-1]:
        moved = [r._replace(offset=-start) if k == axis else r for k, r in enumerate(rows)]
        parts.append(projection(moved, len(dims)))
    signature = Signature(dims, tuple(parts), (projection(rows, len(dims)),))
    return Inferred(signature, (TensorType(result, dtype),))


def _evaluate_concat(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    axis = definition["axis"]
    if len(operands) == 1:
        return (operands[0].array,)
    # Clipped parts lie side by side, in order; those that the range misses are empty there.
    return (xp.concat([o.array for o in operands], axis),)


def _concat_inputs(definition: Definition) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of the inputs: their sizes along the axis are the distances of their starts."""
    signature, axis = definition.signature, definition["axis"]
    assert signature is not None
    result = signature.index_range.shape
    starts = [-p.start.offset[axis] for p in signature.inputs]
    sizes = (b - a for a, b in zip(starts, [*starts[1:], result[axis]], strict=True))
    return tuple((*result[:axis], size, *result[axis + 1 :]) for size in sizes)


def _infer_interleave(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    axis = _joined_axis(attrs, inputs, equal=True)
    (shape, dtype), count = inputs[0], len(inputs)
    dims, rows = axiswise(shape)
    written = [r._replace(stride=count, extent=count) if k == axis else r for k, r in enumerate(rows)]
    same = projection(rows, len(dims))
    result = (*shape[:axis], count * shape[axis], *shape[axis + 1 :])
    signature = Signature(dims, (same,) * count, (projection(written, len(dims)),))
    return Inferred(signature, (TensorType(result, dtype),))


def _evaluate_interleave(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    axis, shape = definition["axis"], operands[0].array.shape
    stacked = xp.stack([o.array for o in operands], axis + 1)
    return (xp.reshape(stacked, (*shape[:axis], len(operands) * shape[axis], *shape[axis + 1 :])),)


_MATRIX = TensorType((4, 6), "float32")

CONCAT = Operator(
    name="concat",
    infer=_infer_concat,
    evaluate=_evaluate_concat,
    work=_move,
    input_shapes=_concat_inputs,
    examples=(
        OperatorExample(attributes(axis=1), (_MATRIX, TensorType((4, 3), "float32"), _MATRIX)),
        OperatorExample(attributes(axis=0), (TensorType((1, 2, 3), "int64"), TensorType((4, 2, 3), "int64"))),
        OperatorExample(attributes(axis=0), tuple(TensorType((n, 2), "float16") for n in (2, 0, 5))),
    ),
)

INTERLEAVE = Operator(
    name="interleave",
    infer=_infer_interleave,
    evaluate=_evaluate_interleave,
    work=_move,
    examples=(
        OperatorExample(attributes(axis=1), (_MATRIX, _MATRIX, _MATRIX)),
        OperatorExample(attributes(axis=0), (TensorType((5, 2, 3), "bool"), TensorType((5, 2, 3), "bool"))),
    ),
)

JOINING: tuple[Operator, ...] = (CONCAT, INTERLEAVE)
