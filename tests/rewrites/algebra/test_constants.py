"""Tests that constants are folded to the end, and only constants: parameters may be exchanged."""

from typing import Any

import numpy as np
import pytest

from tapestry.rewrites import RULES, find, saturate
from tapestry.rewrites.algebra.canonical import canonical
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rules import rule_named
from tapestry.teg.document import dumps, loads
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import permuted
from tapestry.teg.validate import check

FOLD = rule_named("fold_constants")
SATURATING = [r for r in RULES if r.saturating]


def chain(role: str, rows: int = 3) -> Graph:
    """Build a transposed table times itself, its sums added to an input."""
    b = ExampleBuilder("chain")
    values = np.arange(rows * 2, dtype=np.float32).reshape(rows, 2)
    table = b.source("table", values.shape, "float32", role, values)
    turned = b.view(table, permuted(values.shape, (1, 0)))
    product = b.contract("ij,jk->ik", table, turned)
    total = b.op("reduce", product, monoid="sum", labels=("i", "k"), output=("k",))
    return b.result(
        b.cell(("add", ("input", 0), ("input", 1)), {b.tensor("x", rows): "k", total: "k"}, site="y")
    )


def test_a_chain_of_constants_becomes_one() -> None:
    graph = chain("constant")
    folded = saturate(graph, [FOLD]).graph
    check(folded)
    assert [b.operator for b in folded.blocks] == ["source", "source", "cell", "sink"]
    (value,) = folded.data.values()
    assert value.tolist() == [9.0, 39.0, 69.0]
    x = np.ones(3, np.float32)
    assert evaluate(loads(dumps(folded)), {"x": x})["y.out"].tolist() == [10.0, 40.0, 70.0]
    assert evaluate(graph, {"x": x})["y.out"].tolist() == [10.0, 40.0, 70.0]


def test_parameters_and_large_results_stay() -> None:
    assert find(chain("parameter"), [FOLD]) == []
    places = {m.places[0] for m in find(chain("constant", rows=200), [FOLD])}
    assert places == {"view"}, "the product has 40,000 elements"


@pytest.mark.parametrize(
    "expr, wanted",
    [
        (("mul", ("index", "r"), ("const", 0)), ("cast", "int64", ("const", 0))),
        (
            ("mul", ("add", ("cast", "float32", ("const", 2)), ("const", 1.0)), INPUT),
            ("mul", INPUT, ("const", 3.0)),
        ),
        (("cast", "float32", ("cast", "int64", ("const", 2))), ("cast", "float32", ("const", 2))),
        (("mul", INPUT, ("const", 0.0)), ("mul", INPUT, ("const", 0.0))),
        (("mul", ("const", 0.0), ("const", 2.0)), ("mul", ("const", 0.0), ("const", 2.0))),
    ],
)
def test_constants_inside_an_expression_are_folded_but_no_float_is_lost(expr: Any, wanted: Any) -> None:
    """Check that no float factor is folded away, as it may be infinite; an untyped number stays as it is."""
    assert canonical(expr, ("float32",)) == wanted
