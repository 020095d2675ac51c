"""Tests that columns of windows, determinants, norms of lines and batch statistics consist of our own operators."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of, run

RNG = np.random.default_rng(13)


def reals(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


CASES: tuple[tuple[str, dict[str, Any], dict[str, np.ndarray], dict[str, np.ndarray], int], ...] = (
    (
        "Col2Im",
        {"strides": [2, 1], "pads": [1, 0, 0, 2], "dilations": [1, 2]},
        {"x": reals(2, 3 * 6, 3 * 6)},
        {"size": np.array([6, 6]), "taps": np.array([3, 2])},
        1,
    ),
    ("Det", {}, {"x": reals(2, 4, 4)}, {}, 1),
    ("LpNormalization", {"axis": 1, "p": 2}, {"x": reals(3, 4, 2)}, {}, 1),
    (
        "BatchNormalization",
        {"training_mode": 1, "momentum": 0.7},
        {"x": reals(4, 3, 5), "s": reals(3), "b": reals(3), "m": reals(3), "v": np.abs(reals(3))},
        {},
        3,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_they_give_what_the_reference_gives(case: Any) -> None:
    operator, attributes, inputs, constants, count = case
    outputs = [f"y{k}" for k in range(count)]
    node = helper.make_node(operator, [*inputs, *constants], outputs, name="n", **attributes)

    graph = check_against_reference(model_of([node], inputs, outputs, constants), inputs)

    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}


def test_the_sum_of_absolute_values_divides_lines_of_both_signs_and_zeros_stay() -> None:
    x = np.array([[-1.0, 3.0], [0.0, 0.0]], np.float32)
    node = helper.make_node("LpNormalization", ["x"], ["y"], p=1)
    found = run(from_onnx(model_of([node], {"x": x}, ["y"])), {"x": x})["y"]
    np.testing.assert_array_equal(found, [[-0.25, 0.75], [0.0, 0.0]])
