"""Tests of the number of elements that a node touches, before it is computed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Literal
from tapestry.teg.importers.translate.fold_work import IN_PYTHON, fold_work


def node(op: str) -> OnnxNode:
    proto = helper.make_node(op, ["a"], ["b"], name="n")
    return OnnxNode("n", op, ("a",), ("b",), {}, proto)


def ones(*shape: int) -> Literal:
    return Literal(np.ones((1,) * len(shape), np.float32), shape)


@pytest.mark.parametrize(
    "op, shapes, outputs, expected",
    [
        ("CumSum", [(8, 4)], [(8, 4)], 64),
        ("MatMul", [(8, 4), (4, 2)], [(8, 2)], 8 * 4 + 4 * 2 + 8 * 2 * 8),
        ("Einsum", [(8,), (4,), (2,)], [(8, 4, 2)], 64),
        ("Det", [(8, 8)], [()], 65 * IN_PYTHON),
        ("MaxPool", [(1, 1, 8)], [(1, 1, 8)], None),
    ],
)
def test_the_work_of_a_node_is_bounded_before_it_is_computed(op, shapes, outputs, expected):
    assert fold_work(node(op), [ones(*s) for s in shapes], outputs) == expected
