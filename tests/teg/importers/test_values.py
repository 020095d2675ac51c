"""Tests that the intermediate values of a program are where the graph says, by ONNX's own evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tapestry.teg.builder import define
from tapestry.teg.document import from_document, to_document
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Block, Graph, attributes
from tapestry.teg.importers import from_onnx
from tapestry.teg.interface import pack_inputs
from tapestry.teg.stored_values import StoredValue
from tests.teg.importers.models import GRAPHS, model_of


def observed(graph: Graph) -> Graph:
    """Return the graph with a sink for each tensor that stores a value."""
    sinks = []
    for site in {value.tensor for value in graph.values.values()}:
        definition, _ = define("sink", attributes(), [graph.tensors[site].type])
        sinks.append(Block(f"observed {site}", definition, (site,), ()))
    return graph.replace((*graph.blocks, *sinks))


def as_stated(stored: np.ndarray, value: StoredValue) -> np.ndarray:
    """Return the value that a tensor stores."""
    order = [k for own in value.dims for k in own]
    dropped = tuple(k for k in range(stored.ndim) if k not in order)
    kept = np.squeeze(stored, dropped).transpose(_ranks(order))
    sizes = [n if own else 1 for n, own in zip(value.shape, value.dims, strict=True)]
    return np.broadcast_to(kept.reshape(sizes), value.shape)


def _ranks(order: list[int]) -> list[int]:
    places = sorted(order)
    return [places.index(k) for k in order]


def check(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> Graph:
    graph = from_onnx(model)
    found = evaluate(observed(graph), pack_inputs(graph, inputs))
    whole = onnx.ModelProto()
    whole.CopyFrom(model)
    whole.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in graph.values)
    wanted = ReferenceEvaluator(whole).run(list(graph.values), dict(inputs))
    for (name, value), reference in zip(graph.values.items(), wanted, strict=True):
        got = as_stated(found[f"observed {value.tensor}"], value)
        assert got.shape == reference.shape, name
        np.testing.assert_allclose(got, reference, rtol=2e-4, atol=2e-5, err_msg=name)
    return graph


def test_permuted_merged_and_broadcast_values_are_found_in_the_tensors_that_store_them() -> None:
    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 6), (6, 4)))
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Transpose", ["h"], ["t"], perm=[1, 0]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("Reshape", ["r", "heads"], ["s"]),
        helper.make_node("Transpose", ["s"], ["u"], perm=[0, 2, 1]),
        helper.make_node("Exp", ["u"], ["e"]),
        helper.make_node("ReduceSum", ["e", "axis"], ["z"], keepdims=1),
        helper.make_node("Div", ["e", "z"], ["y"]),
    ]
    constants = {"w": w, "heads": np.array([4, 2, 2]), "axis": np.array([2])}
    graph = check(model_of(nodes, {"x": x}, ["y"], constants), {"x": x})
    assert {"t", "r", "s", "u", "e", "z"} <= set(graph.values)
    assert "h" not in graph.values  # it is computed transposed already
    assert "y" not in graph.values  # it is an output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2_small_b1_s1024", "resnet50_b16_224", "llama2_7b_1layer_b1_s2048"])
def test_values_of_public_models_are_where_the_graph_says(name: str) -> None:
    model = onnx.load(GRAPHS / f"tiny_{name}.winputs.onnx")
    recorded = np.load(GRAPHS / f"tiny_{name}.winputs.npz")
    inputs = {
        i.name: recorded[key] for i in model.graph.input for key in recorded.files if key.endswith(i.name)
    }
    assert len(check(model, inputs).values) > 10


def test_a_document_keeps_the_values() -> None:
    x = np.ones((4, 6), np.float32)
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Exp", ["h"], ["y"])]
    graph = from_onnx(model_of(nodes, {"x": x}, ["y"]))
    assert graph.values == {"h": StoredValue("h.Relu", (4, 6), ((0,), (1,)))}

    document = to_document(graph)
    assert from_document(document).values == graph.values
    document["values"]["h"]["dims"] = [[0], [0]]
    with pytest.raises(ValueError, match=r"values.*factors"):
        from_document(document)
