"""Tests of ONNX branches, loops and scans whose control flow is known at import."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapestry.teg.importers import ImportFailure, from_onnx
from tests.teg.importers.models import check_against_reference, model_of, run

X = np.linspace(-2, 3, 5 * 3, dtype=np.float32).reshape(5, 3)


def body(nodes: list[Any], inputs: list[str], outputs: list[str], **constants: np.ndarray) -> Any:
    """Build a body; its inputs are floats, `i` is a number, `go` a condition."""
    kinds = {"i": TensorProto.INT64, "go": TensorProto.BOOL}
    infos = [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in inputs]
    results = [helper.make_tensor_value_info(n, kinds.get(n[:2], TensorProto.FLOAT), None) for n in outputs]
    given = [numpy_helper.from_array(v, k) for k, v in constants.items()]
    return helper.make_graph(nodes, "body", infos, results, given)


def node(op: str, inputs: list[str], outputs: list[str], **attrs: Any) -> Any:
    return helper.make_node(op, inputs, outputs, **attrs)


def branches() -> dict[str, Any]:
    """Return two branches: the double of an outer `x`, or its negative."""
    return {
        "then_branch": body([node("Add", ["x", "x"], ["a"])], [], ["a"]),
        "else_branch": body([node("Neg", ["x"], ["b"])], [], ["b"]),
    }


@pytest.mark.parametrize("taken", [True, False])
def test_a_known_condition_chooses_a_branch(taken: bool) -> None:
    model = model_of([node("If", ["c"], ["y"], **branches())], {"x": X}, ["y"], {"c": np.array(taken)})

    graph = check_against_reference(model, {"x": X})

    assert [b.operator for b in graph.blocks] == ["source", "cell", "sink"]


@pytest.mark.parametrize("taken", [True, False])
def test_branches_of_equal_shape_may_depend_on_the_data(taken: bool) -> None:
    inputs = {"x": X, "c": np.array(taken)}

    check_against_reference(model_of([node("If", ["c"], ["y"], **branches())], inputs, ["y"]), inputs)


def test_a_loop_is_unrolled_with_what_it_carries_and_collects() -> None:
    """Check y = ((x * 1 + b) * 2 + b) * 3 + b, where b comes from outside the body."""
    steps = [
        node("Cast", ["i"], ["number"], to=TensorProto.FLOAT),
        node("Add", ["number", "one"], ["factor"]),
        node("Mul", ["old", "factor"], ["scaled"]),
        node("Add", ["scaled", "b"], ["new"]),
        node("Identity", ["go"], ["go_on"]),
        node("Identity", ["scaled"], ["seen"]),
    ]
    inner = body(steps, ["i", "go", "old"], ["go_on", "new", "seen"], one=np.array(1, np.float32))
    nodes = [node("Loop", ["n", "", "x"], ["y", "all"], body=inner)]
    inputs = {"x": X, "b": X[0]}

    found = run(from_onnx(model_of(nodes, inputs, ["y", "all"], {"n": np.array(3)})), inputs)

    first, second = X, (X + X[0]) * 2
    third = (second + X[0]) * 3
    np.testing.assert_allclose(found["all"], [first, second, third], rtol=1e-6)
    np.testing.assert_allclose(found["y"], third + X[0], rtol=1e-6)


def test_a_loop_ends_where_its_condition_is_known_to() -> None:
    steps = [
        node("Add", ["old", "old"], ["new"]),
        node("Less", ["i", "last"], ["go_on"]),
    ]
    inner = body(steps, ["i", "go", "old"], ["go_on", "new"], last=np.array(2))
    model = model_of(
        [node("Loop", ["", "c", "x"], ["y"], body=inner)], {"x": X}, ["y"], {"c": np.array(True)}
    )

    graph = check_against_reference(model, {"x": X})

    assert [b.operator for b in graph.blocks].count("cell") == 3


def test_a_loop_whose_end_depends_on_the_data_is_refused() -> None:
    steps = [
        node("Add", ["old", "old"], ["new"]),
        node("ReduceMax", ["new"], ["most"], keepdims=0),
        node("Less", ["most", "limit"], ["go_on"]),
    ]
    inner = body(steps, ["i", "go", "old"], ["go_on", "new"], limit=np.array(9, np.float32))
    model = model_of(
        [node("Loop", ["", "c", "x"], ["y"], body=inner)], {"x": X}, ["y"], {"c": np.array(True)}
    )

    with pytest.raises(ImportFailure, match="supported only where its end is known; it depends on the data"):
        from_onnx(model)


def test_a_loop_that_is_too_long_is_refused() -> None:
    steps = [node("Add", ["old", "old"], ["new"]), node("Identity", ["go"], ["go_on"])]
    inner = body(steps, ["i", "go", "old"], ["go_on", "new"])
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=inner)]

    with pytest.raises(ImportFailure, match="runs 1000000000 times; at most 4096 are unrolled"):
        from_onnx(model_of(nodes, {"x": X}, ["y"], {"n": np.array(10**9)}))


@pytest.mark.parametrize("backward", [0, 1])
def test_a_scan_goes_along_an_axis_in_either_direction(backward: int) -> None:
    steps = [node("Add", ["state", "row"], ["next"]), node("Mul", ["next", "next"], ["square"])]
    inner = body(steps, ["state", "row"], ["next", "square"])
    scan = node(
        "Scan",
        ["s", "x"],
        ["last", "squares"],
        body=inner,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[backward],
        scan_output_axes=[1],
    )
    inputs = {"s": X[:, 0] * 3, "x": X}

    found = run(from_onnx(model_of([scan], inputs, ["last", "squares"])), inputs)

    columns = X[:, ::-1] if backward else X
    states = np.cumsum(columns, axis=1) + X[:, :1] * 3
    np.testing.assert_allclose(found["last"], states[:, -1], rtol=1e-5)
    np.testing.assert_allclose(found["squares"], states**2, rtol=1e-5)


@pytest.mark.slow
def test_loops_in_loops_that_never_end_are_refused_soon() -> None:
    copies = [node("Identity", ["go"], ["go_on"]), node("Identity", ["given"], ["kept"])]
    forever = body(copies, ["i", "go", "given"], ["go_on", "kept"])
    steps = [node("Loop", ["", "go", "old"], ["unread"], body=forever), node("Identity", ["go"], ["go_on"])]
    outer = body([*steps, node("Identity", ["old"], ["new"])], ["i", "go", "old"], ["go_on", "new"])
    model = model_of([node("Loop", ["n", "", "c"], ["y"], body=outer)], {}, ["y"], {"n": np.array(9), "c": X})

    with pytest.raises(ImportFailure, match="is supported only where its end is known; it comes after 4096"):
        from_onnx(model)
