"""Tests of single operators in their older and newer forms, against ONNX's own reference."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.importers.translate import BY_OP, TRANSLATORS
from tests.teg.importers.models import check_against_reference, model_of, run

X = np.linspace(-2, 3, 2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
IMAGE = np.linspace(-1, 1, 2 * 4 * 7 * 9, dtype=np.float32).reshape(2, 4, 7, 9)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def one(op: str, inputs: dict[str, Any], opset: int = 20, constants: Any = None, **attrs: Any) -> Graph:
    """Check a model of one node."""
    node = helper.make_node(op, [*inputs, *(constants or {})], ["y"], name="node", **attrs)
    return check_against_reference(model_of([node], inputs, ["y"], constants, opset), inputs)


def operators(graph: Graph) -> list[str]:
    return [b.operator for b in graph.blocks if b.operator not in ("source", "sink")]


def test_no_operator_is_translated_twice() -> None:
    counts = Counter(op for translator in TRANSLATORS for op in translator.ops)
    assert [op for op, n in counts.items() if n > 1] == []
    assert len(BY_OP) == len(counts)


def test_softmax_of_old_normalizes_all_that_follows_the_axis() -> None:
    model = model_of([helper.make_node("Softmax", ["x"], ["y"], axis=1)], {"x": X}, ["y"], opset=11)
    found = run(from_onnx(model), {"x": X})["y"]
    weights = np.exp(X - X.max(axis=(1, 2), keepdims=True))
    np.testing.assert_allclose(found, weights / weights.sum(axis=(1, 2), keepdims=True), rtol=1e-6)


@pytest.mark.parametrize(
    ("op", "opset", "constants", "attrs"),
    [
        ("Softmax", 13, {}, {"axis": 1}),
        ("Squeeze", 11, {}, {"axes": [0]}),
        ("Squeeze", 13, {"axes": ints(0)}, {}),
        ("Unsqueeze", 11, {}, {"axes": [0, 3]}),
        ("Unsqueeze", 13, {"axes": ints(-1)}, {}),
        ("ReduceMean", 11, {}, {"axes": [1], "keepdims": 0}),
        ("ReduceSum", 13, {"axes": ints(0, 2)}, {}),
        ("ReduceMax", 18, {"axes": ints(-1)}, {"keepdims": 0}),
        ("ReduceL2", 18, {"axes": ints(1)}, {}),
        ("Slice", 9, {}, {"starts": [1], "ends": [-1], "axes": [2]}),
        ("Slice", 13, {"s": ints(-1), "e": ints(-100), "a": ints(2), "p": ints(-1)}, {}),
        ("Clip", 6 + 1, {}, {"min": -0.5, "max": 1.0}),
        ("Clip", 13, {"low": np.float32(-0.5), "high": np.float32(1.0)}, {}),
        ("Flatten", 13, {}, {"axis": 2}),
        ("Pad", 13, {"pads": ints(0, 1, 3, 0, 2, 1), "fill": np.float32(0.5)}, {}),
        ("Expand", 13, {"shape": ints(2, 1, 3, 4)}, {}),
        ("Tile", 13, {"repeats": ints(1, 2, 2)}, {}),
        ("Trilu", 14, {"k": np.int64(1)}, {"upper": 0}),
        ("Gelu", 20, {}, {"approximate": "tanh"}),
        ("Gather", 13, {"i": ints(2, 0, -1, 0)}, {"axis": 2}),
        ("Gather", 13, {"i": np.int64(-1)}, {"axis": 1}),
        ("GatherND", 13, {"i": np.array([[0, 2], [0, 0]])}, {}),
        ("HardSigmoid", 13, {}, {}),
        ("LeakyRelu", 13, {}, {"alpha": 0.3}),
        ("Einsum", 13, {"w": np.ones((4, 2), np.float32)}, {"equation": "...k,kn->...n"}),
    ],
)
def test_an_operator_in_its_form(
    op: str, opset: int, constants: dict[str, Any], attrs: dict[str, Any]
) -> None:
    one(op, {"x": X if op not in ("Squeeze", "Expand", "Gelu") else X[:1]}, opset, constants, **attrs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 3]},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 2]},
        {"kernel_shape": [3, 3], "auto_pad": "VALID", "dilations": [2, 1]},
        {"kernel_shape": [1, 1], "strides": [3, 2]},
    ],
)
def test_windows(attrs: dict[str, Any], rng: np.random.Generator) -> None:
    w = rng.standard_normal((6, 2, *attrs["kernel_shape"])).astype(np.float32)
    graph = one("Conv", {"x": IMAGE, "w": w, "b": np.arange(6, dtype=np.float32)}, group=2, **attrs)
    assert operators(graph)[-2:] == ["conv", "cell"]
    if "dilations" not in attrs:
        if attrs.get("auto_pad") != "SAME_LOWER":  # the reference forgets the padding there
            one("MaxPool", {"x": IMAGE}, **attrs)
        one("AveragePool", {"x": IMAGE}, count_include_pad=1, **attrs)
        one("AveragePool", {"x": IMAGE}, **attrs)


def test_negative_padding_is_a_view() -> None:
    nodes = [helper.make_node("Pad", ["x", "pads"], ["y"])]
    graph = from_onnx(model_of(nodes, {"x": X}, ["y"], {"pads": ints(0, -1, 0, 0, 0, -2)}))
    assert operators(graph) == ["view"]
    np.testing.assert_array_equal(run(graph, {"x": X})["y"], X[:, 1:, :2])


def test_the_bias_of_a_gemm_is_added_separately(rng: np.random.Generator) -> None:
    a, b, c = (rng.standard_normal(s).astype(np.float32) for s in ((3, 2), (5, 3), (5,)))
    graph = one("Gemm", {"a": a, "b": b, "c": c}, transA=1, transB=1, alpha=0.5, beta=2.0)
    assert operators(graph) == ["contract", "cell"]
    assert graph.by_site["node"].definition["labels"] == (("k", "m"), ("n", "k"))
    assert graph.by_site["node.bias"].definition["expr"] == (
        "add",
        ("mul", ("input", 0), ("const", 0.5)),
        ("mul", ("input", 1), ("const", 2.0)),
    )


def test_a_matrix_product_broadcasts_its_batch(rng: np.random.Generator) -> None:
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((2, 1, 3, 4), (5, 4, 6)))
    graph = one("MatMul", {"a": a, "b": b})
    assert operators(graph) == ["contract"]
    one("MatMul", {"a": a[0, 0, 0], "b": b})
    one("MatMul", {"a": a, "b": b[0, :, 0]})


def test_batch_normalization_is_one_cell(rng: np.random.Generator) -> None:
    rows = {k: rng.uniform(0.5, 2, 4).astype(np.float32) for k in ("scale", "bias", "mean", "variance")}
    graph = one("BatchNormalization", {"x": IMAGE, **rows})
    assert operators(graph) == ["cell"]
    assert graph.by_site["node"].definition["labels"][1:] == (("d1",),) * 4


def test_dropout_is_nothing_and_a_gather_of_neighbors_a_view() -> None:
    nodes = [
        helper.make_node("Dropout", ["x"], ["d"]),
        helper.make_node("Gather", ["d", "i"], ["y"], axis=1),
    ]
    graph = check_against_reference(model_of(nodes, {"x": X}, ["y"], {"i": ints(1, 2)}), {"x": X})
    assert operators(graph) == ["view"]


def test_shapes_are_folded() -> None:
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axis"], ["u"]),
        helper.make_node("Concat", ["u", "rest"], ["shape"], axis=0),
        helper.make_node("Reshape", ["x", "shape"], ["y"]),
    ]
    constants = {"zero": np.int64(0), "axis": ints(0), "rest": ints(-1)}
    graph = check_against_reference(model_of(nodes, {"x": X}, ["y"], constants), {"x": X})
    assert operators(graph) == []


def test_a_large_mask_becomes_one_generator() -> None:
    n = 300
    nodes = [
        helper.make_node("Range", ["zero", "end", "one"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "axis"], ["column"]),
        helper.make_node("Less", ["r", "column"], ["before"]),
        helper.make_node("Constant", [], ["lowest"], value=numpy_helper.from_array(np.float32(-1e9))),
        helper.make_node("Where", ["before", "nil", "lowest"], ["mask"]),
        helper.make_node("Add", ["x", "mask"], ["y"]),
    ]
    constants = {
        "zero": np.int64(0),
        "end": np.int64(n),
        "one": np.int64(1),
        "axis": ints(1),
        "nil": np.float32(0),
    }
    x = np.ones((2, n, n), np.float32)
    graph = check_against_reference(model_of(nodes, {"x": x}, ["y"], constants), {"x": x})
    generator, addition = (b for b in graph.blocks if b.operator == "cell")
    assert generator.inputs == ()
    assert generator.definition["dims"] == (("d0", n), ("d1", n))
    assert len(addition.inputs) == 2
    assert len(graph.sources) == 1


def test_transpositions_vanish_into_labels(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("Transpose", ["a"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["t", "b"], ["u"]),
        helper.make_node("Transpose", ["u"], ["y"], perm=[1, 0]),
    ]
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((3, 4), (3, 5)))
    graph = check_against_reference(model_of(nodes, {"a": a, "b": b}, ["y"]), {"a": a, "b": b})
    assert operators(graph) == ["contract"]
    assert graph.tensors[graph.sinks[0].inputs[0]].shape == (5, 4)


def test_an_input_may_be_an_output() -> None:
    nodes = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Relu", ["x"], ["x2"])]
    found = run(from_onnx(model_of(nodes, {"x": X}, ["y", "x2", "x"])), {"x": X})
    assert set(found) == {"y", "x2", "x.out"}
    np.testing.assert_array_equal(found["y"], X)
    np.testing.assert_array_equal(found["x.out"], X)


def test_unread_inputs_are_dropped() -> None:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    graph = from_onnx(model_of(nodes, {"x": X, "unused": X}, ["y"]))
    assert [s.site for s in graph.sources] == ["x"]
    run(graph, {"x": X, "unused": X})


def test_a_query_that_may_attend_to_nothing_attends_to_nothing() -> None:
    heads = np.linspace(-1, 1, 2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    mask = np.tril(np.ones((4, 4), bool), -1)

    graph = one("Attention", {"q": heads, "k": heads, "v": heads, "mask": mask}, opset=23)

    found = run(graph, {"q": heads, "k": heads, "v": heads, "mask": mask})["y"]
    assert (found[:, :, 0] == 0).all()
    np.testing.assert_allclose(found[:, :, 1], heads[:, :, 0], rtol=1e-6)
