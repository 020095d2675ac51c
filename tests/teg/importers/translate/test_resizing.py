"""Tests that Resize and Upsample are imported as matrices per dimension, or as copies of elements."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of, run

RNG = np.random.default_rng(3)
X = RNG.normal(size=(2, 3, 5, 7)).astype(np.float32)

MODES: tuple[dict[str, Any], ...] = (
    {"mode": "linear"},
    {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "antialias": 1},
    {"mode": "cubic", "cubic_coeff_a": -0.5, "exclude_outside": 1},
    {"mode": "cubic", "coordinate_transformation_mode": "half_pixel_symmetric", "antialias": 1},
    {"mode": "nearest", "nearest_mode": "ceil", "coordinate_transformation_mode": "pytorch_half_pixel"},
    {
        "mode": "nearest",
        "nearest_mode": "round_prefer_ceil",
        "coordinate_transformation_mode": "align_corners",
    },
)


@pytest.mark.parametrize("scales", [(1, 1, 2.6, 0.7), (1, 2, 0.4, 1.9)])
@pytest.mark.parametrize("mode", MODES, ids=lambda mode: "-".join(map(str, mode.values())))
def test_every_mode_is_made_of_our_operators(mode: dict[str, Any], scales: tuple[float, ...]) -> None:
    node = helper.make_node("Resize", ["x", "", "s"], ["y"], **mode)
    model = model_of([node], {"x": X}, ["y"], {"s": np.array(scales, np.float32)})

    graph = check_against_reference(model, {"x": X})

    assert validate(graph) == []
    assert "onnx" not in {b.operator for b in graph.blocks}


def test_a_part_of_the_picture_is_read_and_what_lies_outside_is_filled() -> None:
    settings = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    node = helper.make_node(
        "Resize", ["x", "roi", "", "n"], ["y"], axes=[3, 2], extrapolation_value=7.0, **settings
    )
    constants = {"roi": np.array([0.1, -0.4, 1.2, 0.7], np.float32), "n": np.array([6, 4])}
    check_against_reference(model_of([node], {"x": X}, ["y"], constants), {"x": X})


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_proportions_are_kept(policy: str) -> None:
    node = helper.make_node(
        "Resize", ["x", "", "", "n"], ["y"], axes=[2, 3], keep_aspect_ratio_policy=policy, mode="linear"
    )
    check_against_reference(model_of([node], {"x": X}, ["y"], {"n": np.array([9, 8])}), {"x": X})


def test_doubling_by_copies_is_a_view() -> None:
    node = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    model = model_of([node], {"x": X}, ["y"], {"s": np.array([1, 1, 2, 2], np.float32)})
    graph = check_against_reference(model, {"x": X})
    assert "gather" not in {b.operator for b in graph.blocks}


def test_the_older_transformation_of_nearest_neighbors() -> None:
    """Check `tf_half_pixel_for_nn`, which opset 11 has and the later ones have not: (i + 0.5) / scale."""
    x = np.arange(5, dtype=np.float32).reshape(1, 1, 1, 5)
    node = helper.make_node(
        "Resize",
        ["x", "", "s"],
        ["y"],
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="tf_half_pixel_for_nn",
    )
    model = model_of([node], {"x": x}, ["y"], {"s": np.array([1, 1, 1, 0.6], np.float32)}, opset=11)

    assert run(from_onnx(model), {"x": x})["y"].ravel().tolist() == [0, 2, 4]
