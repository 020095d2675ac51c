"""Tests that samples of pictures at points, also far outside, become gathers and cells."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of

RNG = np.random.default_rng(11)


@pytest.mark.parametrize("corners", [0, 1])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_points_inside_and_far_outside(mode: str, padding: str, corners: int) -> None:
    x = RNG.normal(size=(2, 2, 4, 5)).astype(np.float32)
    grid = RNG.uniform(-2.6, 2.6, size=(2, 3, 4, 2)).astype(np.float32)
    node = helper.make_node(
        "GridSample", ["x", "g"], ["y"], mode=mode, padding_mode=padding, align_corners=corners
    )
    inputs = {"x": x, "g": grid}

    graph = check_against_reference(model_of([node], inputs, ["y"]), inputs)

    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}


@pytest.mark.parametrize("mode", ["linear", "nearest", "cubic"])
def test_pictures_of_three_dimensions(mode: str) -> None:
    inputs = {
        "x": RNG.normal(size=(1, 2, 3, 4, 2)).astype(np.float32),
        "g": RNG.uniform(-1.3, 1.3, size=(1, 2, 1, 3, 3)).astype(np.float32),
    }
    node = helper.make_node("GridSample", ["x", "g"], ["y"], mode=mode)
    check_against_reference(model_of([node], inputs, ["y"]), inputs)


def test_a_deformable_convolution_reads_each_tap_where_its_offset_says() -> None:
    inputs = {
        "x": RNG.normal(size=(2, 4, 5, 6)).astype(np.float32),
        "w": RNG.normal(size=(6, 2, 2, 3)).astype(np.float32),
        "o": RNG.normal(size=(2, 2 * 6 * 2, 3, 5)).astype(np.float32),
        "b": RNG.normal(size=6).astype(np.float32),
        "m": RNG.uniform(size=(2, 2 * 6, 3, 5)).astype(np.float32),
    }
    node = helper.make_node(
        "DeformConv", [*inputs], ["y"], group=2, offset_group=2, strides=[2, 1], pads=[1, 0, 0, 1]
    )
    graph = check_against_reference(model_of([node], inputs, ["y"]), inputs)
    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}
