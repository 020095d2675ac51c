"""Normalizations: rows are divided by their sum, or moved to zero mean and unit variance."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, canonical_axis, expect_inputs, integers, settings
from tapestry.teg.signature import Row, Signature, projection
from tapestry.teg.zspace import ZRange


def _axes(value: object, shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    axes = tuple(sorted({canonical_axis(a, len(shape)) for a in integers(value, "axes")}))
    if not axes or len(axes) != len(integers(value, "axes")):
        raise ValueError(f"attribute 'axes' must list at least one axis, each once, not {value!r}")
    if not is_float(dtype):
        raise ValueError(f"a normalization needs a float type, not {dtype}")
    return axes


def _infer_softmax(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axes",))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    dims, rows = axiswise(shape, _axes(given["axes"], shape, dtype))
    whole = projection(rows, len(dims))
    return Inferred(Signature(dims, (whole,), (whole,)), (inputs[0],))


def _evaluate_softmax(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    return (xp.softmax(operands[0].array, definition["axes"]),)


def _evaluate_log_softmax(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    return (xp.log_softmax(operands[0].array, definition["axes"]),)


def _infer_layer_norm(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axes", "eps"))
    expect_inputs(inputs, ("value", "scale", "bias"), least=1)
    shape, dtype = inputs[0]
    axes = _axes(given["axes"], shape, dtype)
    if axes != tuple(range(axes[0], len(shape))):
        raise ValueError(f"attribute 'axes' must name the last dimensions of {shape}, not {axes}")
    if not isinstance(given["eps"], float) or given["eps"] < 0:
        raise ValueError(f"attribute 'eps' must be a float that is not negative, not {given['eps']!r}")
    for name, other in zip(("scale", "bias"), inputs[1:], strict=False):
        if other.shape != shape[axes[0] :]:
            raise ValueError(f"{name} must have the normalized shape {shape[axes[0] :]}, not {other.shape}")
        if not is_float(other.dtype):
            raise ValueError(f"{name} must be of a float type, not {other.dtype}")
    dims, rows = axiswise(shape, axes)
    value = projection(rows, len(dims))
    vector = projection([Row(-1, 0, 0, size) for size in shape[axes[0] :]], len(dims))
    return Inferred(Signature(dims, (value, *[vector] * (len(inputs) - 1)), (value,)), (inputs[0],))


def _evaluate_layer_norm(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    value, scale, bias = (*(o.array for o in operands), None, None)[:3]
    return (xp.layer_norm(value, len(definition["axes"]), definition["eps"], scale, bias),)


def _elements(definition: Definition, inputs: Sequence[TensorType]) -> int:
    """Return the number of elements of one normalized row."""
    return math.prod(inputs[0].shape[a] for a in definition["axes"])


def _work_softmax(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    # Per element: compare, subtract, exponential (8), add, divide (4); weights as in `expressions`.
    size = _elements(definition, inputs)
    return Work("vector", flops=15.0 * size, kernel="softmax", row=size)


def _work_log_softmax(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    # Per element: compare, subtract, exponential (8), add, subtract; one logarithm (8) per row.
    size = _elements(definition, inputs)
    return Work("vector", flops=12.0 * size + 8.0, kernel="softmax", row=size)


def _work_layer_norm(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    # Per element: add, subtract, square, add, multiply, and one each for scale and bias; per row a division
    # for the mean and for the variance, the sum with eps, a square root and a reciprocal (4 each but the sum).
    size = _elements(definition, inputs)
    return Work("vector", flops=(4.0 + len(inputs)) * size + 17.0, kernel="normalization", row=size)


_ROWS = TensorType((3, 4, 6), "float32")
_VECTOR = TensorType((6,), "float32")


SOFTMAX = Operator(
    name="softmax",
    infer=_infer_softmax,
    evaluate=_evaluate_softmax,
    work=_work_softmax,
    examples=(
        OperatorExample(attributes(axes=(2,)), (_ROWS,)),
        OperatorExample(attributes(axes=(1, 2)), (_ROWS,)),
        OperatorExample(attributes(axes=(0,)), (TensorType((5, 2), "bfloat16"),)),
        OperatorExample(attributes(axes=(0,)), (TensorType((7,), "float64"),)),
    ),
)

LOG_SOFTMAX = Operator(
    name="log_softmax",
    infer=_infer_softmax,
    evaluate=_evaluate_log_softmax,
    work=_work_log_softmax,
    examples=SOFTMAX.examples,
)

LAYER_NORM = Operator(
    name="layer_norm",
    infer=_infer_layer_norm,
    evaluate=_evaluate_layer_norm,
    work=_work_layer_norm,
    examples=(
        OperatorExample(attributes(axes=(2,), eps=1e-5), (_ROWS, _VECTOR, _VECTOR)),
        OperatorExample(attributes(axes=(2,), eps=1e-5), (_ROWS, _VECTOR)),
        OperatorExample(attributes(axes=(1, 2), eps=0.1), (_ROWS,)),
    ),
)

NORMALIZATION: tuple[Operator, ...] = (SOFTMAX, LOG_SOFTMAX, LAYER_NORM)
