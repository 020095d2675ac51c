"""Waypoints: a value passes through unchanged, so that a plan may specify its placement on the way.

With `memory="host"` the value lies in the memory of the host on the way.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import Attributes, Definition, TensorType, attributes
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, expect_inputs, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange

# XLA writes this memory `S(5)`, JAX calls it `pinned_host`.
HOST_MEMORY = "host"


def _infer(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, (), ("memory",))
    if given.get("memory", HOST_MEMORY) != HOST_MEMORY:
        raise ValueError(f"attribute 'memory' must be {HOST_MEMORY!r}, or left out, not {given['memory']!r}")
    expect_inputs(inputs, ("value",))
    dims, rows = axiswise(inputs[0].shape)
    same = projection(rows, len(dims))
    return Inferred(Signature(dims, (same,), (same,)), (inputs[0],))


def _evaluate(
    _: ArrayNamespace, __: Definition, ___: ZRange, operands: Sequence[Operand]
) -> tuple[Array, ...]:
    return (operands[0].array,)


def _work(_: Definition, __: Sequence[TensorType], ___: Sequence[TensorType]) -> Work:
    """Return no work: nothing is computed, and the way there is a copy like any other."""
    return Work("none")


WAYPOINT = Operator(
    name="waypoint",
    infer=_infer,
    evaluate=_evaluate,
    work=_work,
    examples=(
        OperatorExample((), (TensorType((4, 6), "float32"),)),
        OperatorExample((), (TensorType((), "int64"),)),
        OperatorExample(attributes(memory=HOST_MEMORY), (TensorType((3, 5), "bfloat16"),)),
    ),
)

WAYPOINTS: tuple[Operator, ...] = (WAYPOINT,)
