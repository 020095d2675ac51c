"""Tests of attention gradients in one block: of sinks and biases too, and beside blocks that need its results."""

import numpy as np

from tapestry.rewrites import apply_move, find, rule_named
from tapestry.rewrites.cell_form import INPUT, MULTIPLY
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import broadcast, selected, sliced, unsqueezed
from tapestry.teg.validate import check

CHANGE = ("sub", INPUT, ("mul", ("input", 1), ("input", 2)))


def scores_and_gradient(b: ExampleBuilder) -> tuple[dict[str, str], str, str]:
    """Return operands, scores of two heads, and the gradient of their probabilities."""
    x = {n: b.tensor(n, 2, s, 4) for n, s in (("q", 5), ("k", 6), ("v", 6), ("do", 5))}
    return x, b.contract("hsd,htd->hst", x["q"], x["k"]), b.contract("hsd,htd->hst", x["do"], x["v"])


def gradient_of_scores(b: ExampleBuilder, weights: str, gradient: str) -> str:
    inner = b.cell(MULTIPLY, {weights: "hst", gradient: "hst"})
    total = b.op("reduce", inner, monoid="sum", labels=("h", "s", "t"), output=("h", "s"))
    return b.cell(CHANGE, {inner: "hst", weights: "hst", total: "hs"}, site="ds")


def with_sink() -> Graph:
    """Build a step of training as PyTorch traces it: a column of sinks beside the scores, zeros beside its gradient."""
    b = ExampleBuilder("sink")
    x, scores, gradient = scores_and_gradient(b)
    column = b.view(b.tensor("sink", 2), unsqueezed((2,), (1, 2)).then(broadcast((2, 1, 1), (2, 5, 1))))
    rows = b.op("softmax", b.op("concat", scores, column, axis=2), axes=(2,))
    looked_at = sliced((2, 5, 7), (0, 0, 0), (2, 5, 6))
    made = b.contract("hst,htd->hsd", b.view(rows, looked_at), x["v"])
    padded = b.op("pad", gradient, low=(0, 0, 0), high=(0, 0, 1), value=0.0)
    change = gradient_of_scores(b, rows, padded)
    last = b.view(change, selected((2, 5, 7), 2, 6))
    sink = b.op("reduce", last, monoid="sum", labels=("h", "s"), output=("h",))
    change = b.view(change, looked_at)
    keys, queries = b.contract("hst,hsd->htd", change, x["q"]), b.contract("hst,htd->hsd", change, x["k"])
    return b.result(made, sink, keys, queries)


def test_a_sink_and_its_gradient_leave_no_square() -> None:
    graph = with_sink()
    after = graph
    for name in ("fuse_attention", "fuse_attention_gradient"):
        (move,) = find(after, [rule_named(name)])
        after = apply_move(after, move)
    check(after)
    assert {x.operator for x in after.blocks} == {"source", "view", "fused", "sink"}
    assert all(t.type.shape[-2:] not in ((5, 6), (5, 7)) for t in after.tensors.values())
    same(graph, after)


def test_the_gradient_of_a_bias_joins() -> None:
    b = ExampleBuilder("bias")
    x, scores, gradient = scores_and_gradient(b)
    biased = b.cell(("add", INPUT, ("input", 1)), {scores: "hst", b.tensor("bias", 2, 6): "ht"})
    change = gradient_of_scores(b, b.op("softmax", biased, axes=(2,)), gradient)
    bias = b.op("reduce", change, monoid="sum", labels=("h", "s", "t"), output=("h", "t"))
    keys, queries = b.contract("hst,hsd->htd", change, x["q"]), b.contract("hst,htd->hsd", change, x["k"])
    graph = b.result(bias, keys, queries)
    (move,) = find(graph, [rule_named("fuse_attention_gradient")])
    after = apply_move(graph, move)
    assert {x.operator for x in after.blocks} == {"source", "fused", "sink"}
    same(graph, after)


def test_what_a_block_that_stays_reads_is_given() -> None:
    """Check that the producer of the centered gradient, read outside, stays beside the block that sums it."""
    b = ExampleBuilder("staying")
    x, scores, gradient = scores_and_gradient(b)
    change = gradient_of_scores(b, b.op("softmax", scores, axes=(2,)), gradient)
    queries = b.contract("hst,htd->hsd", change, x["k"])
    total = b.op("reduce", change, monoid="sum", labels=("h", "s", "t"), output=("h", "s"), site="total")
    centered = b.cell(("sub", INPUT, ("input", 1)), {change: "hst", total: "hs"}, site="centered")
    graph = b.result(queries, b.contract("hst,hsd->htd", centered, x["q"]), centered)
    move = next(m for m in find(graph, [rule_named("fuse_attention_gradient")]) if m.place == queries)
    after = apply_move(graph, move)
    check(after)
    assert "total" in after.tensors and after.producers["total"].operator == "fused"
    assert after.producers["centered"].operator == "cell"
    same(graph, after)


def same(before: Graph, after: Graph) -> None:
    inputs = random_inputs(before, np.random.default_rng(0))
    wanted, got = evaluate(before, inputs), evaluate(after, inputs)
    for site, value in wanted.items():
        np.testing.assert_allclose(got[site], value, rtol=2e-5, atol=2e-5)
