"""Reshaping of the same elements, row-major: sharded along what both shapes have in common.

The shapes fall into groups of neighboring dimensions with equal products. Within a group, equal runs of the
outermost input dimension are equal runs of the outermost output dimension: as many as the greatest common
divisor of the two sizes. `[2, 320, 64, 64]` to `[2, 32, 40960]` shards over 2 and over 32.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import dim_names, expect_inputs, integers, settings
from tapestry.teg.signature import IndexDim, Row, Signature, projection
from tapestry.teg.zspace import ZRange


class DimensionGroup(NamedTuple):
    """Neighboring dimensions, `[start, end)` of the input and of the output, that hold the same elements."""

    inputs: tuple[int, int]
    outputs: tuple[int, int]


def groups(shape: Sequence[int], wanted: Sequence[int]) -> Iterator[DimensionGroup]:
    """Yield the smallest groups of dimensions with equal products, outermost first; the last takes what is left."""
    i = j = 0
    while i < len(shape) or j < len(wanted):
        first = (i, j)
        left = right = 1
        while (i, j) == first or left != right:
            if i < len(shape) and (left <= right or j == len(wanted)):
                left, i = left * shape[i], i + 1
            elif j < len(wanted):
                right, j = right * wanted[j], j + 1
            else:  # a size of zero: products need not meet before the end
                break
        if i < len(shape) and math.prod(shape[i:]) == 1:
            i = len(shape)
        if j < len(wanted) and math.prod(wanted[j:]) == 1:
            j = len(wanted)
        yield DimensionGroup((first[0], i), (first[1], j))


def _outermost(shape: Sequence[int], start: int, end: int) -> int | None:
    """Return the first dimension of a group that is not 1; None if all are 1."""
    return next((k for k in range(start, end) if shape[k] != 1), None)


def _signature(shape: Sequence[int], wanted: Sequence[int]) -> Signature:
    read = [Row(-1, 0, 0, n) for n in shape]
    written = [Row(-1, 0, 0, n) for n in wanted]
    sizes: list[int] = []
    if math.prod(shape):
        for group in groups(shape, wanted):
            i, j = _outermost(shape, *group.inputs), _outermost(wanted, *group.outputs)
            if i is None or j is None or (count := math.gcd(shape[i], wanted[j])) == 1:
                continue
            read[i] = Row(len(sizes), shape[i] // count, 0, shape[i] // count)
            written[j] = Row(len(sizes), wanted[j] // count, 0, wanted[j] // count)
            sizes.append(count)
    dims = tuple(IndexDim(name, n) for name, n in zip(dim_names(len(sizes)), sizes, strict=True))
    return Signature(dims, (projection(read, len(dims)),), (projection(written, len(dims)),))


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("shape",))
    expect_inputs(inputs, ("value",))
    shape = integers(given["shape"], "shape", least=0)
    if math.prod(shape) != math.prod(inputs[0].shape):
        raise ValueError(
            f"{inputs[0].shape} has {math.prod(inputs[0].shape)} elements, {shape} has {math.prod(shape)}"
        )
    return Inferred(_signature(inputs[0].shape, shape), (TensorType(shape, inputs[0].dtype),))


def _evaluate(
    xp: ArrayNamespace, definition: Definition, index: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    array, signature = operands[0].array, definition.signature
    if signature is None:
        return (xp.reshape(array, definition["shape"]),)
    return (xp.reshape(array, signature.outputs[0].project(index).shape),)


def _work(_: Definition, __: Sequence[TensorType], ___: Sequence[TensorType]) -> Work:
    return Work("move")


def _example(shape: tuple[int, ...], wanted: tuple[int, ...]) -> OperatorExample:
    return OperatorExample(attributes(shape=wanted), (TensorType(shape, "float32"),))


RESHAPE = Operator(
    name="reshape",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        _example((4, 6), (3, 8)),
        _example((2, 12, 3, 2), (2, 4, 18)),
        _example((6, 10, 4), (6, 1, 40)),
        _example((8, 9), (4, 3, 6)),
        _example((), (1, 1)),
        _example((0, 3), (5, 0)),
    ),
)

RESHAPING: tuple[Operator, ...] = (RESHAPE,)
