"""Tests that compare the inferred shapes with those of ONNX's own shape inference."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto, helper

from benchmarks.onnx_shapes import shape_differences
from tests.teg.importers.models import GRAPHS, model_of

MODELS = sorted(GRAPHS.glob("*.onnx"))


@pytest.mark.parametrize("path", MODELS, ids=[p.stem for p in MODELS])
def test_all_shapes_of_the_test_models_are_those_that_onnx_infers(path: Path) -> None:
    compared, wrong = shape_differences(path)
    assert compared > 5
    assert wrong == []


def test_a_shape_that_the_model_states_wrongly_is_reported() -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, [])
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2]))
    assert shape_differences(model) == (1, ["value 'y' is float32[2, 3], ONNX infers float32[3, 2]"])
