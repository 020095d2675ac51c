"""Tests that decomposed operators are found again, over any dimensions and in any context."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.rewrites import RULES, apply_all, find, saturate
from tapestry.rewrites.algebra.recomposition import RECOMPOSITION
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.validate import check

SATURATING = [r for r in RULES if r.saturating]


def recomposed(graph: Graph) -> Graph:
    """Return the saturated graph after every recomposition; check that it has the same values."""
    before = graph = saturate(graph, SATURATING).graph
    while moves := find(graph, RECOMPOSITION):
        graph = saturate(apply_all(graph, moves[:1]).graph, SATURATING).graph
    check(graph)
    inputs = random_inputs(before, np.random.default_rng(0))
    wanted, got = evaluate(before, inputs), evaluate(graph, inputs)
    for site, value in wanted.items():
        np.testing.assert_allclose(got[site], value, rtol=2e-4, atol=2e-4)
    return graph


def operators(function: Callable[..., Any], **vectors: int) -> dict[str, int]:
    """Count each operator that is left of a program over x (a 3, b 4, c 5) and vectors."""
    p = tapestry.program()
    x = p.input("x", a=3, b=4, c=5)
    p.output("y", function(x, *(p.parameter(n, c=size) for n, size in vectors.items())))
    return dict(
        Counter(b.operator for b in recomposed(p.graph).blocks if b.operator not in ("source", "sink"))
    )


def exponential(x: Any, *dims: str) -> Any:
    return (x - x.max(*dims, keep=True)).exp()


def centered(x: Any, *dims: str) -> Any:
    return x - x.mean(*dims, keep=True)


@pytest.mark.parametrize("dims", [("c",), ("b",), ("a", "c")])
def test_a_softmax_is_found_over_any_dimensions(dims: tuple[str, ...]) -> None:
    e = lambda x: exponential(x, *dims)  # noqa: E731
    assert operators(lambda x: e(x) / e(x).sum(*dims, keep=True)) == {"softmax": 1}
    assert operators(lambda x: x.exp() / x.exp().sum(*dims, keep=True)) == {"softmax": 1}
    scaled = lambda x: (x * 0.25).exp()  # noqa: E731
    assert operators(lambda x: scaled(x) / scaled(x).sum(*dims, keep=True)) == {"cell": 1, "softmax": 1}


def test_a_scaled_and_masked_softmax_is_found_behind_its_scale() -> None:
    def masked(x: Any) -> Any:
        scores = (x > 0.1).where(x * 0.125, -1e9)
        e = exponential(scores, "c")
        return (e / e.sum("c", keep=True)) * 2.0

    assert operators(masked) == {"cell": 2, "softmax": 1}


def test_logarithms_of_softmax_are_one_operator() -> None:
    assert operators(lambda x: centered_by_max(x) - exponential(x, "c").sum("c", keep=True).log()) == {
        "log_softmax": 1
    }
    assert operators(lambda x: x - x.logsumexp("c", keep=True)) == {"log_softmax": 1}
    assert operators(lambda x: (exponential(x, "c") / exponential(x, "c").sum("c", keep=True)).log()) == {
        "log_softmax": 1
    }


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (centered_by_max(x) - exponential(x, "c").sum("c", keep=True).log()).exp(),
        lambda x: (x - (exponential(x, "c").sum("c", keep=True).log() + x.max("c", keep=True))).exp(),
        lambda x: (x - x.exp().sum("c", keep=True).log()).exp(),
        lambda x: exponential(x, "c") * exponential(x, "c").sum("c", keep=True).reciprocal(),
    ],
)
def test_a_softmax_by_logarithms_or_reciprocals_is_found_without_its_shift(
    function: Callable[[Any], Any],
) -> None:
    assert operators(function) == {"softmax": 1}


def test_powers_of_two_over_their_sum_are_a_softmax() -> None:
    assert operators(lambda x: x.function("exp2") / x.function("exp2").sum("b", keep=True)) == {
        "softmax": 1,
        "cell": 1,
    }


def test_exponentials_of_logarithms_are_the_softmax() -> None:
    assert operators(lambda x: (x - x.logsumexp("a", "c", keep=True)).exp()) == {"softmax": 1}
    assert operators(lambda x: 2.0 * x.log_softmax("b").exp()) == {"softmax": 1, "cell": 1}


def centered_by_max(x: Any) -> Any:
    return x - x.max("c", keep=True)


VARIANCES = [
    lambda x: (centered(x, "c") * centered(x, "c")).mean("c", keep=True),
    lambda x: centered(x, "c").contract(centered(x, "c"), "c").unsqueeze(2, "one") / 5.0,
    lambda x: (x * x).mean("c", keep=True) - x.mean("c", keep=True) ** 2,
    lambda x: ((x * x).sum("c", keep=True) / 5.0 - x.mean("c", keep=True).square()).maximum(0.0),
]


@pytest.mark.parametrize("variance", VARIANCES)
def test_a_layer_norm_is_found_by_any_variance_with_its_scale(variance: Callable[[Any], Any]) -> None:
    def normal(x: Any, s: Any, t: Any) -> Any:
        return centered(x, "c") * (variance(x) + 1e-5).rsqrt() * s + t

    assert operators(normal, s=5, t=5) == {"layer_norm": 1}


@pytest.mark.parametrize(
    "over",
    [
        lambda v: 1.0 / (v + 1e-5).sqrt(),
        lambda v: (v + 1e-5) ** -0.5,
        lambda v: (v + 1e-5).sqrt().reciprocal(),
        lambda v: (1.0 / (v + 1e-5)).sqrt(),
    ],
)
def test_a_layer_norm_is_found_by_any_root(over: Callable[[Any], Any]) -> None:
    assert operators(lambda x: centered(x, "c") * over(VARIANCES[0](x))) == {"layer_norm": 1}
    assert operators(lambda x: centered(x, "c") / (VARIANCES[0](x) + 1e-5).sqrt()) == {"layer_norm": 1}


@pytest.mark.parametrize(
    "rule, operator, function",
    [
        ("expand_softmax", "softmax", lambda x: x.softmax("b")),
        ("expand_log_softmax", "log_softmax", lambda x: x.log_softmax("a", "b")),
        ("expand_layer_norm", "layer_norm", lambda x: x.layer_norm("c")),
        ("expand_logsumexp", "reduce", lambda x: x.logsumexp("b", "c")),
    ],
)
def test_what_is_expanded_can_be_found_again(
    rule: str, operator: str, function: Callable[[Any], Any]
) -> None:
    p = tapestry.program()
    p.output("y", function(p.input("x", a=3, b=4, c=5)))
    (move,) = [m for m in find(p.graph, RULES) if m.rule == rule]
    expanded = apply_all(p.graph, [move]).graph
    assert len(expanded.blocks) > len(p.graph.blocks)
    after = recomposed(expanded)
    assert [b.operator for b in after.blocks] == ["source", operator, "sink"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_attention_with_a_sink_is_one_block_without_a_copy_of_its_scores(dtype: str) -> None:
    """Check a logit per head joined to the scores, with its probability dropped (gpt-oss, streaming models)."""
    p = tapestry.program()
    q, k, v = (
        p.input(n, dtype=dtype, h=2, d=4, **{t: s})
        for n, t, s in (("q", "s", 6), ("k", "t", 7), ("v", "t", 7))
    )
    sink = (
        p.parameter("sink", dtype=dtype, h=2).unsqueeze(1, "s").unsqueeze(2, "t").broadcast_to(h=2, s=6, t=1)
    )
    joined = p.concat([q.contract(k, "d") * 0.5, sink], "t")
    weights = (joined - joined.max("t", keep=True)).softmax("t")
    p.output("y", weights[:, :, :7].contract(v, "t"))
    graph = recomposed(p.graph)
    assert "concat" not in {b.operator for b in graph.blocks}
    (move,) = [m for m in find(graph, RULES) if m.rule == "fuse_attention"]
    fused = apply_all(graph, [move]).graph
    assert Counter(b.operator for b in fused.blocks)["contract"] == 0


def test_the_gradient_of_a_sink_does_not_hide_the_attention() -> None:
    """Check a sink whose own probability is read too: maximum and sum of a row are computed once for both."""
    p = tapestry.program()
    scores, sink = p.input("scores", h=2, s=6, t=7), p.parameter("sink", h=2)
    column = sink.unsqueeze(1, "s").unsqueeze(2, "t").broadcast_to(h=2, s=6, t=1)
    row = p.concat([scores, column], "t").softmax("t")
    p.output("weights", row[:, :, :7] * 2.0)
    p.output("share", row[:, :, 7].sum("s"))
    graph = recomposed(p.graph)
    found = Counter(b.operator for b in graph.blocks)
    assert (found["concat"], found["softmax"]) == (0, 0)
    assert Counter(b.definition["monoid"] for b in graph.blocks if b.operator == "reduce")["max"] <= 2
