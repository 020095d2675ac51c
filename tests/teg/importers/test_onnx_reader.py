"""Tests of forms of ONNX files: functions of their own, other domains, sparse data, all kinds of constants."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tapestry.teg.importers import from_onnx
from tests.teg.importers.models import check_against_reference, model_of, run
from tests.teg.importers.test_bad_input import failure

X = np.array([[1.0, -2.0, 3.0], [-4.0, 5.0, -6.0]], np.float32)


def function(
    name: str, nodes: list[onnx.NodeProto], attributes: list[str] | None = None, opset: int = 20
) -> object:
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, ["a"], ["b"], nodes, opsets, attributes or [])


def calling(*functions: object, **attributes: object) -> onnx.ModelProto:
    """Build a model that calls the last of the functions on `x`, and adds the result to `x`."""
    called = functions[-1].name  # type: ignore[attr-defined]
    nodes = [
        helper.make_node(called, ["x"], ["h"], domain="own", **attributes),
        helper.make_node("Add", ["h", "x"], ["y"]),
    ]
    model = model_of(nodes, {"x": X}, ["y"])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.extend(functions)
    return model


def leaky() -> onnx.NodeProto:
    """Build a node whose slope is an attribute of the function around it."""
    node = helper.make_node("LeakyRelu", ["a"], ["b"])
    reference = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    node.attribute.append(reference)
    return node


def test_functions_in_functions_with_attributes() -> None:
    inner = function("inner", [leaky()], ["slope"])
    call = helper.make_node("inner", ["a"], ["c"], domain="own", slope=0.5)
    outer = function("outer", [call, helper.make_node("Neg", ["c"], ["b"])])
    graph = from_onnx(calling(inner, outer))
    np.testing.assert_array_equal(run(graph, {"x": X})["y"], X - np.where(X < 0, X / 2, X))
    assert [b.operator for b in graph.blocks] == ["source", "cell", "cell", "cell", "sink"]


def test_a_function_gets_the_attributes_of_its_call() -> None:
    graph = from_onnx(calling(function("inner", [leaky()], ["slope"]), slope=0.25))
    np.testing.assert_array_equal(run(graph, {"x": X})["y"], X + np.where(X < 0, X / 4, X))


def test_two_calls_of_a_function_do_not_mix_their_values() -> None:
    body = [helper.make_node("Neg", ["a"], ["c"]), helper.make_node("Exp", ["c"], ["b"])]
    nodes = [
        helper.make_node("f", ["x"], ["c"], domain="own"),
        helper.make_node("f", ["c"], ["y"], domain="own"),
    ]
    model = model_of(nodes, {"x": X}, ["y"])
    model.opset_import.append(helper.make_opsetid("own", 1))
    model.functions.append(function("f", body))
    check_against_reference(model, {"x": X})


def test_a_function_of_another_opset_in_which_its_operators_are_the_same() -> None:
    body = [helper.make_node("Neg", ["a"], ["b"])]
    graph = from_onnx(calling(function("minus", body, opset=13)))
    np.testing.assert_array_equal(run(graph, {"x": X})["y"], np.zeros_like(X))


def test_a_function_of_another_opset_in_which_they_are_not() -> None:
    """Check that ReduceSum in a function of opset 11 is refused: it took its axes as an attribute before opset 13."""
    body = [helper.make_node("ReduceSum", ["a"], ["b"], axes=[1], keepdims=1)]
    text = failure(calling(function("total", body, opset=11)))
    assert "its functions cannot be unfolded; write them for opset 20, the model's own" in text


@pytest.mark.parametrize("flat", [True, False])
def test_sparse_initializers(flat: bool) -> None:
    values = numpy_helper.from_array(np.array([7.0, 9.0], np.float32), "w")
    places = np.array([1, 5]) if flat else np.array([[0, 1], [1, 2]])
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    model.graph.sparse_initializer.append(
        helper.make_sparse_tensor(values, numpy_helper.from_array(places), [2, 3])
    )
    wanted = X + np.array([[0, 7, 0], [0, 0, 9]], np.float32)
    np.testing.assert_array_equal(run(from_onnx(model), {"x": X})["y"], wanted)


def test_sparse_initializers_stay_small_and_inside() -> None:
    values = numpy_helper.from_array(np.array([7.0], np.float32), "w")
    model = model_of([helper.make_node("Add", ["x", "w"], ["y"])], {"x": X}, ["y"])
    for dims, place, message in (
        ([2**20, 2**20], 0, "sparse, and would take more"),
        ([2, 3], 6, "lie outside"),
    ):
        del model.graph.sparse_initializer[:]
        indices = numpy_helper.from_array(np.array([place]))
        model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, dims))
        assert message in failure(model)


@pytest.mark.parametrize(
    ("held", "wanted"),
    [
        ({"value_float": 2.5}, np.float32(2.5)),
        ({"value_floats": [1.0, 2.0, 3.0]}, np.array([1, 2, 3], np.float32)),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [1, 2, 3]}, np.array([1, 2, 3])),
        ({"value": numpy_helper.from_array(np.array([0.5], np.float16))}, np.array([0.5], np.float16)),
    ],
)
def test_constants_in_all_forms(held: dict[str, object], wanted: np.ndarray) -> None:
    nodes = [helper.make_node("Constant", [], ["c"], **held), helper.make_node("Identity", ["c"], ["y"])]
    found = run(from_onnx(model_of(nodes, {}, ["y"])), {})["y"]
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_a_constant_of_text_is_refused() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_string="abc"),
        helper.make_node("Identity", ["c"], ["y"]),
    ]
    assert "holds value_string, which is no number or tensor" in failure(model_of(nodes, {}, ["y"]))


def test_operators_of_ai_onnx_ml_need_no_other_domain() -> None:
    node = helper.make_node("Binarizer", ["x"], ["y"], domain="ai.onnx.ml", threshold=0.5)
    graph = helper.make_graph(
        [node],
        "binary",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 1)])
    np.testing.assert_array_equal(run(from_onnx(model), {"x": X})["y"], (X > 0.5).astype(np.float32))


@pytest.mark.parametrize("opset", [7, 9, 11, 13, 18, 21, 24])
def test_a_model_of_any_opset(opset: int) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["p"]),
        helper.make_node("Softmax", ["p"], ["s"], axis=1),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    check_against_reference(model_of(nodes, {"x": X}, ["y"], opset=opset), {"x": X})
