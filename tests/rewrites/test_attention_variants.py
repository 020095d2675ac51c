"""Tests of attention as compilers and kernels write it: found with anything in between, with the same values."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapestry
from tapestry.rewrites import RECOMPOSITION, RULES, apply_all, find, find_tied, saturate
from tapestry.rewrites.rules import rule_named
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph

SATURATING = [r for r in RULES if r.saturating]
NOTHING = float("-inf")


def recomposed(graph: Graph) -> Graph:
    graph = saturate(graph, SATURATING).graph
    while moves := find_tied(graph, RECOMPOSITION):
        graph = saturate(apply_all(graph, moves[:1]).graph, SATURATING).graph
    return graph


def exponentials(s: Any) -> Any:
    return (s - s.max("t")).exp()


def later(e: Any) -> Any:
    """Return whether a key stands behind its query."""
    return e.coordinate("t") > e.coordinate("s")


def far(e: Any) -> Any:
    return later(e) | (e.coordinate("s") - e.coordinate("t") >= 3)


def with_slopes(p: Any, s: Any) -> Any:
    def biased(e: Any, slope: Any) -> Any:
        return later(e).where(NOTHING, e + slope * (e.coordinate("t") - e.coordinate("s")).cast("float32"))

    return s.fused("alibi", biased, p.parameter("slope", h=2)).softmax("t")


def with_sink(p: Any, s: Any) -> Any:
    sink = p.parameter("sink", h=2)
    peak = s.max("t").maximum(sink)
    e = (s - peak).exp()
    return e / (e.sum("t") + (sink - peak).exp())


def unless_masked(p: Any, s: Any) -> Any:
    """Compute softmax with masks as PyTorch exports them: rows all of whose scores are masked weigh nothing."""
    return p.where(s.max("t") == NOTHING, 0.0, s.softmax("t"))


WEIGHTS: dict[str, Callable[[Any, Any], Any]] = {
    "causal": lambda p, s: s.fused("mask", lambda e: later(e).where(NOTHING, e)).softmax("t"),
    "sliding window": lambda p, s: s.fused("mask", lambda e: far(e).where(NOTHING, e)).softmax("t"),
    "added mask": lambda p, s: (s + p.input("mask", s=5, t=6)).softmax("t"),
    "truth values": lambda p, s: p.where(p.input("mask", t=6, dtype="bool"), s, -1e9).softmax("t"),
    "safe, causal": lambda p, s: unless_masked(p, s.fused("mask", lambda e: later(e).where(NOTHING, e))),
    "safe, sliding window": lambda p, s: unless_masked(
        p, s.fused("mask", lambda e: far(e).where(NOTHING, e))
    ),
    "safe, added mask": lambda p, s: unless_masked(p, s + p.input("mask", s=5, t=6)),
    "safe, truth values": lambda p, s: unless_masked(p, p.where(p.input("m", t=6, dtype="bool"), s, NOTHING)),
    "safe, masked elements": lambda p, s: p.where(s * 2.0 == NOTHING, 0.0, s.softmax("t")),
    "slopes": with_slopes,
    "capped": lambda p, s: ((s / 30.0).tanh() * 30.0).softmax("t"),
    "sink": with_sink,
    "spelled out": lambda p, s: exponentials(s) / exponentials(s).sum("t"),
    "without a maximum": lambda p, s: s.exp() / s.exp().sum("t"),
    "off by one": lambda p, s: s.exp() / (s.exp().sum("t") + 1.0),
    "by a reciprocal": lambda p, s: exponentials(s) * (1.0 / exponentials(s).sum("t")),
    "by a logarithm": lambda p, s: (s - s.logsumexp("t")).exp(),
    "by powers of two": lambda p, s: exponentials(s * 1.4426950) / exponentials(s * 1.4426950).sum("t"),
    "dropped out": lambda p, s: s.softmax("t") * p.input("kept", h=2, s=5, t=6) * 1.1,
    "widened": lambda p, s: s.cast("float64").softmax("t").cast("float32"),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("grouped", [False, True])
def test_attention_is_one_block_however_its_weights_are_spelled(name: str, grouped: bool) -> None:
    p = tapestry.program()
    queries = {"h": 2, "r": 3} if grouped else {"h": 2}
    q = p.input("q", **queries, s=5, d=4)
    k, v = p.input("k", h=2, t=6, d=4), p.input("v", h=2, t=6, d=4)
    p.output("y", WEIGHTS[name](p, q.contract(k, "d") * 0.5).contract(v, "t"))
    graph = recomposed(p.graph)
    (move,) = find(graph, [rule_named("fuse_attention")])
    fused = apply_all(graph, [move]).graph
    assert "contract" not in {b.operator for b in fused.blocks}
    inputs = random_inputs(p.graph, np.random.default_rng(0))
    wanted, got = evaluate(p.graph, inputs), evaluate(fused, inputs)
    np.testing.assert_allclose(got["y"], wanted["y"], rtol=2e-5, atol=2e-5)


def test_products_beside_the_softmax_are_no_scores() -> None:
    p = tapestry.program()
    q, k, v = p.input("q", s=5, d=4), p.input("k", t=6, d=4), p.input("v", t=6, d=4)
    gates = p.input("x", s=5, d=4).contract(p.parameter("w", d=4, t=6), "d")
    p.output("y", (q.contract(k, "d").softmax("t") * gates).contract(v, "t"))
    assert not find(p.graph, [rule_named("fuse_attention")])


def test_rows_that_are_masked_as_a_whole_weigh_nothing_in_one_block_too() -> None:
    p = tapestry.program()
    q, k, v = p.input("q", s=5, d=4), p.input("k", t=6, d=4), p.input("v", t=6, d=4)
    scores = q.contract(k, "d") + p.input("mask", s=5, t=6)
    p.output("y", unless_masked(p, scores).contract(v, "t"))
    (move,) = find(p.graph, [rule_named("fuse_attention")])
    inputs = random_inputs(p.graph, np.random.default_rng(0))
    inputs["mask"][2] = NOTHING
    wanted, got = (evaluate(g, inputs)["y"] for g in (p.graph, apply_all(p.graph, [move]).graph))
    assert not wanted[2].any()
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)
