"""Tests that untranslated nodes are fixed blocks, which evaluate through ONNX's reference and are never split."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper

from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget
from tapestry.optimizer.analysis.verification import verify_plan
from tapestry.optimizer.run.search import search
from tapestry.teg.document import dumps, loads
from tapestry.teg.drawing import to_dot
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure, from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of, run

X = np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6) % 7


def dropped() -> onnx.ModelProto:
    """Build a node with two outputs between an add before and a product behind it."""
    nodes = [
        helper.make_node("Add", ["x", "x"], ["twice"]),
        helper.make_node("Dropout", ["twice", "ratio", "training"], ["p", "i"], name="drop", seed=7),
        helper.make_node("Mul", ["p", "p"], ["y"]),
    ]
    constants = {"ratio": np.array(0.25, np.float32), "training": np.array(True)}
    return model_of(nodes, {"x": X}, ["y", "i"], constants)


def fixed_blocks(graph: Graph) -> list[str]:
    return [b.site for b in graph.blocks if b.operator == "onnx"]


def test_a_node_with_two_outputs_is_one_fixed_block() -> None:
    graph = check_against_reference(dropped(), {"x": X})

    assert validate(graph) == []
    assert fixed_blocks(graph) == ["drop"]
    (block,) = [b for b in graph.blocks if b.operator == "onnx"]
    assert block.signature is None
    assert block.definition["types"] == (((1, 2, 4, 6), "float32"), ((1, 2, 4, 6), "bool"))


def test_a_fixed_block_survives_its_document() -> None:
    graph = from_onnx(dropped())
    assert loads(dumps(graph)) == graph
    assert "drop" in to_dot(graph)


@pytest.mark.slow
def test_a_fixed_block_is_searched_and_simulated() -> None:
    graph = from_onnx(dropped())
    mesh = load_mesh("dgx-h100")
    inputs = {"x": X.reshape(graph.tensors["x"].shape)}

    result = search(graph, mesh, budget=Budget(evaluations=200), islands=1, seed=0)
    wanted = evaluate(graph, inputs)
    checked = [
        verify_plan(plan, mesh, inputs=inputs, execute=True, reference=wanted) for plan in result.frontier
    ]

    assert checked
    assert all(v.ok and set(v.max_error) == {"y", "i"} for v in checked)


def test_what_the_reference_cannot_decide_is_refused() -> None:
    drawn = model_of([helper.make_node("RandomNormal", [], ["y"], shape=[2])], {}, ["y"])
    found = model_of([helper.make_node("NonZero", ["x"], ["y"], name="find")], {"x": [2]}, ["y"])
    with pytest.raises(ImportFailure, match="draws numbers at random, and ONNX does not say which"):
        from_onnx(drawn)
    with pytest.raises(ImportFailure, match=r"node 'find' .* output 'y' is not static: state it"):
        from_onnx(found)


def test_a_stated_shape_is_believed_until_values_say_otherwise() -> None:
    model = model_of([helper.make_node("NonZero", ["x"], ["y"], name="find")], {"x": [3]}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1, 2]))
    graph = from_onnx(model)

    np.testing.assert_array_equal(run(graph, {"x": np.array([0, 4, 5], np.float32)})["y"], [[1, 2]])
    with pytest.raises(ValueError, match=r"make shape \[1, 1\], the program states \[1, 2\]"):
        run(graph, {"x": np.array([0, 4, 0], np.float32)})
