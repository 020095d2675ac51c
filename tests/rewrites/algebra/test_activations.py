"""Tests that activations written out in programs are found by saturation, in any context."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tapestry
from tapestry.rewrites import RECOMPOSITION, RULES, apply_move, find, saturate
from tapestry.rewrites.patterns import functions_of
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

GRAPHS = Path(__file__).resolve().parents[2] / "data" / "graphs"
SATURATING = [r for r in RULES if r.saturating]
X = ("input", 0)


def simplified(graph: Graph) -> list[Any]:
    """Return the expressions of the cells of the saturated graph."""
    done = saturate(graph, SATURATING).graph
    return [b.definition["expr"] for b in done.blocks if b.operator == "cell"]


def spelled(function: Callable[[Any], Any]) -> list[Any]:
    p = tapestry.program()
    p.output("y", function(p.input("x", row=3, column=4)))
    return simplified(p.graph)


@pytest.mark.parametrize(
    "name, function",
    [
        ("gelu", lambda x: x.gelu()),
        ("gelu", lambda x: x * 0.5 * ((x / math.sqrt(2)).erf() + 1)),
        ("gelu", lambda x: (x * (1 - (-x * 0.70710677).erf())) * 0.5),
        ("gelu_tanh", lambda x: x.gelu(approximate=True)),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + (0.7978845 * x * (1 + 0.044715 * x * x)).tanh())),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + (0.7978845 * (x + 0.044715 * x**3)).tanh())),
        ("gelu", lambda x: x * (0.5 * (x * 0.70710677).erf() + 0.5)),
        ("gelu", lambda x: x / 2 + x / 2 * (x / 1.4142135).erf()),
        ("gelu_tanh", lambda x: x * (1.5957691 * (x + 0.044715 * x * x * x)).sigmoid()),
        ("gelu_tanh", lambda x: x * (1.5957691 * x + 0.0713548 * x**3).sigmoid()),
        ("gelu_tanh", lambda x: x / 2 + x / 2 * (0.7978845 * (x + 0.044715 * x**3)).tanh()),
        ("gelu", lambda x: 0.5 * (x + x * (x / math.sqrt(2)).erf())),
        ("gelu_tanh", lambda x: x / (1 + (-1.5957691 * (x + 0.044715 * x**3)).exp())),
        ("silu", lambda x: x * (1 - (-x).sigmoid())),
        ("silu", lambda x: x * x.exp() / (1 + x.exp())),
        ("silu", lambda x: x / (1 + (-x).exp())),
        ("silu", lambda x: (1 / (1 + (-x).exp())) * x),
        ("softplus", lambda x: x.softplus()),
        ("softplus", lambda x: (1 + x.exp()).log()),
        ("sigmoid", lambda x: x.exp() / (x.exp() + 1)),
        ("relu", lambda x: (x > 0).where(x, 0.0)),
        ("abs", lambda x: x.maximum(-x)),
        ("abs", lambda x: (x * x).sqrt()),
        ("relu", lambda x: 0.5 * (x + x.abs())),
        ("quick_gelu", lambda x: x * (1.702 * x).sigmoid()),
        ("quick_gelu", lambda x: x / ((-1.702 * x).exp() + 1)),
        ("tanh", lambda x: 2 * (2 * x).sigmoid() - 1),
        ("tanh", lambda x: (x.exp() - (-x).exp()) / (x.exp() + (-x).exp())),
        ("tanh", lambda x: (1 - (-2 * x).exp()) / (1 + (-2 * x).exp())),
    ],
)
def test_a_spelled_out_unit_is_one_function(name: str, function: Callable[[Any], Any]) -> None:
    assert spelled(function) == [(name, X)]


@pytest.mark.parametrize(
    "name, function",
    [
        ("gelu_tanh", lambda x: 0.5 * x * (1 + (0.7978845 * x + 0.0356774 * x * x * x).tanh())),
        ("gelu_tanh", lambda x: 0.5 * x * (1 + (0.7978845 * x + 0.0356774 * x**3).tanh())),
        ("silu", lambda x: x * ((x * 0.5).tanh() + 1) * 0.5),
        ("silu", lambda x: (x / 2) + (x / 2) * (x / 2).tanh()),
        ("silu", lambda x: x * (0.5 * (x / 2).tanh() + 0.5) * 3.0),
    ],
)
def test_a_unit_whose_parts_cost_no_more_is_named_too(name: str, function: Callable[[Any], Any]) -> None:
    p = tapestry.program()
    p.output("y", function(p.input("x", row=3, column=4)))
    saturated = saturate(p.graph, SATURATING).graph
    (move,) = find(saturated, RECOMPOSITION)
    (expr,) = simplified(apply_move(saturated, move))
    assert (name, X) in (expr, expr[1])


def test_what_is_multiplied_with_a_unit_stays() -> None:
    p = tapestry.program()
    x, gate = p.input("x", row=3), p.input("gate", row=3)
    p.output("y", x.sigmoid() * gate * x * 0.25)
    assert simplified(p.graph) == [("mul", ("mul", ("silu", ("input", 0)), ("input", 1)), ("const", 0.25))]


def test_other_constants_are_other_functions() -> None:
    assert spelled(lambda x: 0.5 * x * (1 + (x * 0.75).erf())) != [("gelu", X)]
    assert spelled(lambda x: x * (1.702 * x).sigmoid()) == [("quick_gelu", X)]
    assert spelled(lambda x: x * (1.5 * x).sigmoid())[0][0] == "mul"


@pytest.mark.parametrize(
    "name, wanted", [("tiny_gpt2_small_b1_s1024", "gelu_tanh"), ("llama2_7b_1layer_b1_s2048", "silu")]
)
def test_units_are_found_in_exported_networks(name: str, wanted: str) -> None:
    graph = saturate(from_onnx(GRAPHS / f"{name}.onnx"), SATURATING).graph
    found = Counter(
        f
        for b in graph.blocks
        if b.operator == "cell"
        for f in functions_of(b.definition)
        if f in (wanted, "tanh")
    )
    layers = sum(b.operator == "softmax" for b in graph.blocks)
    assert found == {wanted: layers}


def test_a_training_steps_activation_is_named_where_its_parts_are_computed_again() -> None:
    """Check a backward pass that reads erf(x / sqrt(2)) too; after the moves both passes read x only."""
    p = tapestry.program()
    x, dy = p.input("x", row=3, column=4), p.input("dy", row=3, column=4)
    bell = (x * math.sqrt(0.5)).erf() + 1
    p.output("y", x * 0.5 * bell)
    p.output("dx", dy * (0.5 * bell + x * 0.39894228 * (x * x * -0.5).exp()))
    graph = saturate(p.graph, SATURATING).graph
    assert ("gelu", X) not in simplified(graph)
    while moves := [m for m in find(graph, RULES) if m.rule == "fuse_shared_cell"]:
        graph = saturate(apply_move(graph, moves[0]), SATURATING).graph
    assert ("gelu", X) in simplified(graph)
    assert all(not graph.producers[t].inputs for b in graph.blocks if b.operator == "cell" for t in b.inputs)
