"""Fourier transforms along one dimension, which stays whole; all others can be sharded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, canonical_axis, expect_inputs, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("axis",), ("inverse",))
    expect_inputs(inputs, ("value",))
    shape, dtype = inputs[0]
    axis = canonical_axis(given["axis"], len(shape))
    if numpy_dtype(dtype).kind != "c":
        raise ValueError(f"a Fourier transform needs complex numbers (cast them), not {dtype}")
    if not isinstance(given.get("inverse", False), bool):
        raise ValueError(f"attribute 'inverse' must be True or False, not {given['inverse']!r}")
    if not shape[axis]:
        raise ValueError(f"axis {axis} of {shape} has no elements to transform")
    dims, rows = axiswise(shape, whole=(axis,))
    same = projection(rows, len(dims))
    return Inferred(Signature(dims, (same,), (same,)), (inputs[0],))


def _evaluate(
    xp: ArrayNamespace, definition: Definition, _: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    """Compute the transform with numpy's scaling: the inverse divides by the number of elements."""
    array = operands[0].array
    made = xp.fft(array, definition["axis"], definition.get("inverse", False))
    return (xp.cast(made, xp.dtype_of(array)),)


def _work(definition: Definition, inputs: Sequence[TensorType], _: Sequence[TensorType]) -> Work:
    """Return the work of a point, a line of n elements: 5 n log2 n operations (Cooley and Tukey 1965, radix 2)."""
    size = inputs[0].shape[definition["axis"]]
    return Work("vector", flops=5.0 * size * math.log2(max(size, 2)), kernel="scan", row=size)


FFT = Operator(
    name="fft",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample(attributes(axis=1), (TensorType((4, 6, 3), "complex64"),)),
        OperatorExample(attributes(axis=0, inverse=True), (TensorType((5, 4), "complex128"),)),
    ),
)

SPECTRAL: tuple[Operator, ...] = (FFT,)
