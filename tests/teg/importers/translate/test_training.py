"""Tests that ONNX's optimizers are imported as cells; its reference gives the expected values of a step."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of

RNG = np.random.default_rng(2)
DOMAIN = "ai.onnx.preview.training"


def model_with(
    operator: str, inputs: dict[str, np.ndarray], count: int, **attributes: Any
) -> onnx.ModelProto:
    outputs = [f"y{k}" for k in range(count)]
    node = helper.make_node(operator, list(inputs), outputs, domain=DOMAIN, **attributes)
    model = model_of([node], inputs, outputs)
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return model


@pytest.mark.parametrize("count", [0, 4])
@pytest.mark.parametrize(
    ("operator", "kinds", "attributes"),
    [
        ("Adagrad", 3, {"norm_coefficient": 0.01, "epsilon": 1e-5, "decay_factor": 0.1}),
        ("Adam", 4, {"norm_coefficient": 0.02, "alpha": 0.95, "beta": 0.85, "epsilon": 1e-3}),
        ("Adam", 4, {"norm_coefficient_post": 0.1, "epsilon": 1e-2}),
        ("Momentum", 3, {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.5, "mode": "standard"}),
        ("Momentum", 3, {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"}),
    ],
)
def test_two_parameters_are_updated(
    operator: str, kinds: int, attributes: dict[str, Any], count: int
) -> None:
    shapes = [(2, 3), (4,)] * kinds
    inputs = {"r": np.array(0.1, np.float32), "t": np.array(count, np.int64)}
    inputs |= {f"x{k}": np.abs(RNG.normal(size=s)).astype(np.float32) for k, s in enumerate(shapes)}

    model = model_with(operator, inputs, 2 * (kinds - 1), **attributes)
    graph = check_against_reference(model, inputs)

    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}


def test_a_mask_of_dropout_at_inference_keeps_everything() -> None:
    x = np.float32([[1, -2], [3, 4]])
    model = model_of([helper.make_node("Dropout", ["x"], ["y", "m"])], {"x": x}, ["y", "m"])
    assert "onnx" not in {b.operator for b in check_against_reference(model, {"x": x}).blocks}


@pytest.mark.parametrize(("up", "down"), [(1, 1), (1, 0), (0, 1), (0, 0)])
def test_the_sign_of_what_is_infinite_counts(up: int, down: int) -> None:
    x = np.float32([np.inf, -np.inf, np.nan, 1.0])
    node = helper.make_node("IsInf", ["x"], ["y"], detect_positive=up, detect_negative=down)
    graph = check_against_reference(model_of([node], {"x": x}, ["y"]), {"x": x})
    assert "onnx" not in {b.operator for b in graph.blocks}
