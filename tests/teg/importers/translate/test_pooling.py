"""Tests that ONNX pools in their less common forms become windows, slices and cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of, run

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 7, 9)).astype(np.float32)

CASES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("LpPool", {"kernel_shape": [3, 2], "p": 3, "strides": [2, 1], "pads": [1, 0, 1, 1]}),
    ("LpPool", {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}),
    ("MaxPool", {"kernel_shape": [2, 3], "dilations": [2, 1], "ceil_mode": 1, "strides": [2, 2]}),
    ("AveragePool", {"kernel_shape": [3, 3], "count_include_pad": 1, "pads": [1, 1, 1, 1]}),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_pools_are_windows(case: tuple[str, dict[str, Any]]) -> None:
    node = helper.make_node(case[0], ["x"], ["y"], **case[1])
    graph = check_against_reference(model_of([node], {"x": X}, ["y"]), {"x": X})
    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}


@pytest.mark.parametrize("order", [0, 1])
def test_positions_of_maxima_count_the_whole_tensor(order: int) -> None:
    node = helper.make_node(
        "MaxPool", ["x"], ["y", "at"], kernel_shape=[2, 3], pads=[0, 1, 1, 0], storage_order=order
    )
    model = model_of([node], {"x": X}, ["y", "at"])

    found = run(from_onnx(model), {"x": X})

    pictures = X if order == 0 else X.swapaxes(2, 3)
    np.testing.assert_array_equal(pictures.reshape(-1)[found["at"]], found["y"])


def test_what_a_last_window_reaches_beyond_the_padding_does_not_count() -> None:
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 5)
    node = helper.make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[3], strides=[3], ceil_mode=1, count_include_pad=1
    )
    found = run(from_onnx(model_of([node], {"x": x}, ["y"])), {"x": x})
    np.testing.assert_allclose(found["y"].reshape(-1), [1.0, 3.5])
