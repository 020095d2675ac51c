"""Tests of dimensions of size 0: tensors without elements are known, and their results are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.graph import Graph
from tapestry.teg.validate import validate
from tests.teg.importers.models import check_against_reference, model_of

EMPTY = np.zeros((0, 3), np.float32)
X = np.arange(12, dtype=np.float32).reshape(3, 4)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def checked(nodes: list[Any], inputs: dict[str, np.ndarray], constants: Any = None, opset: int = 20) -> Graph:
    graph = check_against_reference(model_of(nodes, inputs, ["y"], constants, opset), inputs)
    assert validate(graph) == []
    return graph


@pytest.mark.parametrize(
    ("op", "inputs", "constants"),
    [
        ("Relu", {"x": EMPTY}, {}),
        ("Add", {"x": EMPTY, "b": np.ones((1, 3), np.float32)}, {}),
        ("MatMul", {"x": EMPTY, "a": X}, {}),
        ("Softmax", {"x": EMPTY}, {}),
        ("Transpose", {"x": EMPTY}, {}),
        ("Reshape", {"x": np.zeros((0, 3, 4), np.float32)}, {"s": ints(12, -1)}),
        ("Pad", {"x": EMPTY}, {"p": ints(1, 0, 1, 0)}),
        ("ReduceSum", {"x": EMPTY}, {"axes": ints(0)}),
        ("ReduceMax", {"x": EMPTY}, {"axes": ints(0)}),
        ("Slice", {"x": X}, {"s": ints(1), "e": ints(1)}),
        ("Expand", {"x": np.ones((1, 3), np.float32)}, {"s": ints(0, 3)}),
        ("Tile", {"x": X}, {"s": ints(0, 2)}),
        ("Gather", {"x": X, "i": np.zeros((0, 2), np.int64)}, {}),
        ("ScatterND", {"x": X, "i": np.zeros((0, 2), np.int64), "u": np.zeros(0, np.float32)}, {}),
        ("Conv", {"x": np.zeros((0, 2, 5, 5), np.float32), "w": np.ones((3, 2, 3, 3), np.float32)}, {}),
    ],
)
def test_operators_take_and_give_nothing(op: str, inputs: dict[str, Any], constants: dict[str, Any]) -> None:
    checked([helper.make_node(op, [*inputs, *constants], ["y"])], inputs, constants)


def test_a_product_over_nothing_is_zero() -> None:
    inputs = {
        "x": np.zeros((3, 0), np.float32),
        "a": np.zeros((0, 2), np.float32),
        "b": np.ones(2, np.float32),
    }

    graph = checked([helper.make_node("Gemm", ["x", "a", "b"], ["y"])], inputs)

    assert "contract" not in [b.operator for b in graph.blocks]


def test_parts_without_elements_add_nothing() -> None:
    nodes = [
        helper.make_node("Slice", ["x", "s", "s"], ["none"]),
        helper.make_node("Concat", ["none", "x", "none"], ["y"], axis=0),
    ]

    graph = checked(nodes, {"x": X}, {"s": ints(1)})

    assert [b.operator for b in graph.blocks] == ["source", "sink"]


def test_nothing_joined_with_nothing_is_nothing() -> None:
    checked([helper.make_node("Concat", ["x", "x"], ["y"], axis=0)], {"x": EMPTY})
