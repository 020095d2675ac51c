"""Tests that repeated labels of one operand of an Einsum are diagonals."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from tests.teg.importers.models import check_against_reference, model_of

RNG = np.random.default_rng(17)


@pytest.mark.parametrize(
    "equation",
    [
        "...ii->...i",
        "bii,bi->b",
        "iib->b",
        "ibi->bi",
        "ii",
        "iib",
        "bii,b",
    ],
)
def test_a_label_that_an_operand_repeats_walks_its_diagonal(equation: str) -> None:
    terms = equation.split("->", maxsplit=1)[0].split(",")
    sizes = {"b": 2, "i": 3}
    inputs = {
        f"x{k}": RNG.normal(size=[sizes[d] for d in term.replace("...", "b")]).astype(np.float32)
        for k, term in enumerate(terms)
    }
    node = helper.make_node("Einsum", [*inputs], ["y"], equation=equation)
    graph = check_against_reference(model_of([node], inputs, ["y"]), inputs)
    assert "onnx" not in {b.operator for b in graph.blocks}
