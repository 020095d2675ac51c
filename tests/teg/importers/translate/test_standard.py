"""Tests that operators defined by others in the standard are imported as those, with no fixed block among them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.graph import Graph
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of

RNG = np.random.default_rng(7)


def reals(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def sites_of_fixed(graph: Graph) -> list[str]:
    return [b.site for b in graph.blocks if b.operator == "onnx"]


CASES: tuple[tuple[str, dict[str, Any], dict[str, np.ndarray], int, int], ...] = (
    ("Shrink", {"bias": 0.3, "lambd": 0.8}, {"x": reals(4, 5)}, 1, 9),
    ("Shrink", {}, {"x": reals(4, 5)}, 1, 9),
    ("MeanVarianceNormalization", {}, {"x": reals(2, 3, 4, 5)}, 1, 13),
    ("MeanVarianceNormalization", {"axes": [1, 2]}, {"x": reals(2, 3, 4)}, 1, 18),
    ("AffineGrid", {"align_corners": 1}, {"theta": reals(2, 2, 3)}, 1, 20),
    (
        "RotaryEmbedding",
        {"interleaved": 1},
        {"x": reals(2, 3, 4, 8), "cos": reals(2, 4, 4), "sin": reals(2, 4, 4)},
        1,
        23,
    ),
    (
        "Attention",
        {"scale": 0.4, "softcap": 2.0},
        {
            "q": reals(2, 4, 3, 8),
            "k": reals(2, 2, 5, 8),
            "v": reals(2, 2, 5, 6),
            "mask": reals(3, 9),
            "pk": reals(2, 2, 4, 8),
            "pv": reals(2, 2, 4, 6),
        },
        3,
        24,
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_body_that_the_standard_gives_takes_the_place_of_the_node(
    case: tuple[str, Mapping[str, Any], Mapping[str, np.ndarray], int, int],
) -> None:
    operator, attributes, inputs, count, opset = case
    outputs = [f"y{k}" for k in range(count)]
    constants = {"size": np.array([2, 3, 4, 5])} if operator == "AffineGrid" else {}
    node = helper.make_node(operator, [*inputs, *constants], outputs, name="n", **attributes)

    graph = check_against_reference(model_of([node], inputs, outputs, constants, opset=opset), inputs)

    assert validate(graph) == []
    assert sites_of_fixed(graph) == []


def test_what_a_node_leaves_out_is_the_default_of_its_operator() -> None:
    x = np.array([-2.0, -0.6, 0.4, 0.6, 3.0], np.float32)
    node = helper.make_node("Shrink", ["x"], ["y"])
    graph = check_against_reference(model_of([node], {"x": x}, ["y"]), {"x": x})
    assert sites_of_fixed(graph) == []


def test_two_nodes_of_one_operator_do_not_mix_their_values() -> None:
    nodes = [
        helper.make_node("Shrink", ["x"], ["a"], lambd=1.0),
        helper.make_node("Shrink", ["a"], ["y"], lambd=0.1, bias=0.2),
    ]
    inputs = {"x": reals(3, 4)}
    check_against_reference(model_of(nodes, inputs, ["a", "y"]), inputs)
