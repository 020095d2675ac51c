"""Boundary operators: sources bring values in, sinks make them observable, sequence points order both."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.graph import ROLES, Attributes, Definition, TensorType, attributes
from tapestry.teg.loading import LOAD_ATTRIBUTES, load_of
from tapestry.teg.operators.operator import Inferred, Operand, Operator, OperatorExample, Work
from tapestry.teg.operators.reading import axiswise, expect_inputs, integers, known_dtype, settings
from tapestry.teg.signature import Signature, projection
from tapestry.teg.zspace import ZRange


def _no_work(_: Definition, __: Sequence[TensorType], ___: Sequence[TensorType]) -> Work:
    return Work("none")


def _infer_source(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, ("shape", "dtype", "role"), ("logical_shape", *LOAD_ATTRIBUTES))
    expect_inputs(inputs, ())
    shape = integers(given["shape"], "shape", least=0)
    if given["role"] not in ROLES:
        raise ValueError(f"attribute 'role' must be one of {', '.join(ROLES)}, not {given['role']!r}")
    load_of(given)
    dims, rows = axiswise(shape)
    signature = Signature(dims, (), (projection(rows, len(dims)),))
    return Inferred(signature, (TensorType(shape, known_dtype(given["dtype"])),))


def _evaluate_source(
    _: ArrayNamespace, __: Definition, ___: ZRange, ____: Sequence[Operand]
) -> tuple[Array, ...]:
    raise ValueError("a source computes nothing: its value comes from outside (inputs, or the graph's data)")


def _infer_sink(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    given = settings(attrs, (), ("carries", "logical_shape"))
    expect_inputs(inputs, ("value",))
    if not isinstance(given.get("carries", ""), str):
        raise ValueError(f"attribute 'carries' must be the site of a source, not {given['carries']!r}")
    dims, rows = axiswise(inputs[0].shape)
    return Inferred(Signature(dims, (projection(rows, len(dims)),), ()), ())


def _infer_sequence_point(attrs: Attributes, inputs: Sequence[TensorType]) -> Inferred:
    settings(attrs, ())
    expect_inputs(inputs, ())
    return Inferred(Signature((), (), ()), ())


def _evaluate_nothing(
    _: ArrayNamespace, __: Definition, ___: ZRange, ____: Sequence[Operand]
) -> tuple[Array, ...]:
    return ()


SOURCE = Operator(
    name="source",
    infer=_infer_source,
    evaluate=_evaluate_source,
    work=_no_work,
    examples=(
        OperatorExample(attributes(shape=(2, 3), dtype="float32", role="activation"), ()),
        OperatorExample(attributes(shape=(), dtype="bool", role="constant"), ()),
    ),
    meaningless=True,
)

SINK = Operator(
    name="sink",
    infer=_infer_sink,
    evaluate=_evaluate_nothing,
    work=_no_work,
    examples=(
        OperatorExample((), (TensorType((2, 3), "float32"),)),
        OperatorExample(attributes(carries="weight"), (TensorType((4,), "bfloat16"),)),
    ),
)

SEQUENCE_POINT = Operator(
    name="sequence_point",
    infer=_infer_sequence_point,
    evaluate=_evaluate_nothing,
    work=_no_work,
    examples=(OperatorExample((), ()),),
)

BOUNDARY: tuple[Operator, ...] = (SOURCE, SINK, SEQUENCE_POINT)
