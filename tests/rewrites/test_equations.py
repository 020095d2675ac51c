"""Tests of equations: names stand for groups of dimensions, numbers for numbers; the last cell may be larger."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.rewrites import ExampleSizes, Rule, RuleError, apply_all, find
from tapestry.rewrites.equation_sides import NORMALIZING
from tapestry.rewrites.equations import equation
from tapestry.rewrites.saturation import saturate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.validate import check

DOC = "What changes.\n\nbefore  ->  after\nAlways."


def law(name: str, left: Any, right: Any, tensors: dict[str, str], **more: Any) -> Rule:
    return equation(name, left, right, tensors, doc=DOC, source="a test", **more)


def layer_norm(x: Any, s: Any, t: Any, eps: float) -> Any:
    c = x - x.mean("k")
    return c * ((c * c).mean("k") + eps).rsqrt() * s + t


FACTOR = law(
    "factor",
    lambda x, w, v: x.contract(w, "k") + x.contract(v, "k"),
    lambda x, w, v: x.contract(w + v, "k"),
    {"x": "b m k", "w": "b k n", "v": "b k n"},
)
SOFTMAX = law(
    "softmax",
    lambda x: (x - x.max("k")).exp() / (x - x.max("k")).exp().sum("k"),
    lambda x: x.softmax("k"),
    {"x": "m k"},
)
LAYER_NORM = law(
    "layer_norm",
    layer_norm,
    lambda x, s, t, eps: x.layer_norm("k", scale=s, bias=t, eps=eps),
    {"x": "m k", "s": "k", "t": "k"},
    numbers={"eps": 1.1e-5},
)


def rewritten(rule: Rule, graph: Graph) -> Graph:
    """Return the graph after the rule's first move; check that it keeps its values."""
    graph = saturate(graph, NORMALIZING).graph
    moves = find(graph, [rule])
    assert moves
    after = apply_all(graph, moves[:1], {rule.name: rule}).graph
    check(after)
    inputs = random_inputs(graph, np.random.default_rng(0))
    wanted, got = evaluate(graph, inputs), evaluate(after, inputs)
    for site, value in wanted.items():
        np.testing.assert_allclose(got[site], value, rtol=2e-4, atol=2e-4)
    return after


def operators(graph: Graph) -> list[str]:
    return [b.operator for b in graph.blocks if b.operator not in ("source", "sink")]


def test_a_name_stands_for_a_group_of_dimensions() -> None:
    p = tapestry.program()
    x = p.input("x", token=5, batch=2, head=3, width=4)
    w, v = (p.parameter(n, width=4, head=3, out=6, pair=2) for n in "wv")
    with_w = p.einsum("t b h w, w h o p -> b t o p", x, w)
    with_v = p.einsum("t b h w, w h o p -> t b p o", x, v)
    p.output("y", with_w + with_v.transpose("batch", "token", "out", "pair"))
    assert operators(rewritten(FACTOR, p.graph)) == ["cell", "contract"]


def test_a_group_may_be_empty() -> None:
    p = tapestry.program()
    x, w, v = p.input("x", k=4), p.parameter("w", k=4), p.parameter("v", k=4)
    p.output("y", x.contract(w, "k") + x.contract(v, "k"))
    assert operators(rewritten(FACTOR, p.graph)) == ["cell", "contract"]


def test_what_surrounds_an_instance_stays_around_it() -> None:
    p = tapestry.program()
    x, w, v = p.input("x", m=3, k=4), p.parameter("w", k=4, n=5), p.parameter("v", k=4, n=5)
    b = p.parameter("b", n=5)
    p.output("y", p.cell(lambda a, c, d: (a + d + c).relu() * 2.0, x @ w, x @ v, b))
    assert operators(rewritten(FACTOR, p.graph)) == ["cell", "contract", "cell"]


def test_operators_are_found_again_over_any_axes() -> None:
    p = tapestry.program()
    x = p.input("x", a=3, b=4, c=5, d=2)
    e = (x - x.max("a", "c", keep=True)).exp()
    p.output("y", e / e.sum("c", "a", keep=True))
    after = rewritten(SOFTMAX, p.graph)
    assert operators(after) == ["softmax"]
    assert next(b for b in after.blocks if b.operator == "softmax").definition["axes"] == (0, 2)


@pytest.mark.parametrize("eps", [1e-5, 0.25])
def test_numbers_are_variables_where_the_law_says_so(eps: float) -> None:
    p = tapestry.program()
    x, s, t = p.input("x", m=3, q=2, k=6), p.parameter("s", k=6), p.parameter("t", k=6)
    p.output("y", layer_norm(x, s, t, eps))
    after = rewritten(LAYER_NORM, p.graph)
    assert next(b for b in after.blocks if b.operator == "layer_norm").definition["eps"] == eps


def test_other_numbers_must_be_what_the_sizes_make_them() -> None:
    p = tapestry.program()
    x, s, t = p.input("x", m=3, k=6), p.parameter("s", k=6), p.parameter("t", k=6)
    c = x - x.sum("k") * 0.125
    p.output("y", c * ((c * c).mean("k") + 1e-5).rsqrt() * s + t)
    assert find(saturate(p.graph, NORMALIZING).graph, [LAYER_NORM]) == []


def test_what_others_read_is_not_taken_away() -> None:
    p = tapestry.program()
    x = p.input("x", m=3, k=4)
    e = (x - x.max("k", keep=True)).exp()
    p.output("y", e / e.sum("k", keep=True))
    p.output("e", e)
    assert find(p.graph, [SOFTMAX]) == []


def test_element_types_are_those_of_the_left_side() -> None:
    p = tapestry.program()
    x = p.input("x", m=3, k=4, dtype="float16")
    e = (x.cast("float32") - x.max("k", keep=True)).exp()
    p.output("y", e / e.sum("k", keep=True))
    assert find(saturate(p.graph, NORMALIZING).graph, [SOFTMAX]) == []


def test_examples_come_from_the_left_side() -> None:
    assert [b.operator for b in SOFTMAX.example(ExampleSizes()).blocks][1:-1] == [
        "reduce",
        "cell",
        "reduce",
        "cell",
    ]


@pytest.mark.parametrize(
    ("left", "right", "tensors", "message"),
    [
        (lambda x: x.sum("k"), lambda x: x.sum("j"), {"x": "m k"}, "there is no dimension 'j'"),
        (lambda x: x.exp().sum("k"), lambda x: x.sum("k"), {"x": "m n k"}, "let them be one name"),
        (lambda x: x.cumsum("k"), lambda x: x * 2, {"x": "m k"}, "do not know what 'scan' does"),
        (lambda x: x.sum("k"), lambda x: x, {"x": "m k"}, "one of its tensors"),
    ],
)
def test_equations_that_say_nothing_are_refused(left: Any, right: Any, tensors: Any, message: str) -> None:
    rule = law("wrong", left, right, tensors)
    with pytest.raises(RuleError, match=f"rule 'wrong': .*{message}"):
        find(rule.example(ExampleSizes()), [rule])


def test_sides_are_traced_when_the_rule_is_first_matched() -> None:
    traced = []

    def left(x: Any) -> Any:
        traced.append("left")
        return x.exp().sum("k")

    rule = law("late", left, lambda x: x.sum("k"), {"x": "m k"})
    assert (rule.name, rule.kind, rule.doc.splitlines()[0], traced) == (
        "late",
        "optimization",
        "What changes.",
        [],
    )
    assert find(rule.example(ExampleSizes()), [rule]) != [] and rule.roots is rule.roots
    assert traced == ["left"]
