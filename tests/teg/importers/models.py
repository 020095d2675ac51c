"""Paths of the models, and small models built on the spot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.interface import pack_inputs, unpack_outputs

ROOT = Path(__file__).resolve().parents[3]
GRAPHS = ROOT / "tests" / "data" / "graphs"
GPT2 = ROOT / "examples" / "models" / "gpt2_small_b1_s1024.onnx"

Shape = Sequence[int | str]


def model_of(
    nodes: Sequence[Any],
    inputs: Mapping[str, np.ndarray | Shape],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    opset: int = 20,
) -> onnx.ModelProto:
    """Build a model of a few nodes; inputs are specified by example or by (float32) shape."""
    infos = [
        helper.make_tensor_value_info(
            n,
            helper.np_dtype_to_tensor_dtype(x.dtype) if isinstance(x, np.ndarray) else TensorProto.FLOAT,
            x.shape if isinstance(x, np.ndarray) else x,
        )
        for n, x in inputs.items()
    ]
    given = [numpy_helper.from_array(np.asarray(v), k) for k, v in (constants or {}).items()]
    results = [helper.make_empty_tensor_value_info(o) for o in outputs]
    graph = helper.make_graph(nodes, "small", infos, results, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def run(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of an imported graph, by their ONNX names, at their ONNX shapes."""
    return unpack_outputs(graph, evaluate(graph, pack_inputs(graph, inputs)))


def check_against_reference(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> Graph:
    """Check that the imported graph gives the results of ONNX's own reference; return the graph for further checks."""
    graph = from_onnx(model)
    found = run(graph, inputs)
    names = [o.name for o in model.graph.output]
    for name, wanted in zip(names, ReferenceEvaluator(model).run(None, dict(inputs)), strict=True):
        assert found[name].shape == np.shape(wanted)
        assert found[name].dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(found[name], wanted, rtol=2e-5, atol=2e-5)
    return graph
