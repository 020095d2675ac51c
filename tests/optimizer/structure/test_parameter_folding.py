"""Tests of folding into parameters: less work remains for every run, and the values are the same."""

from pathlib import Path

import numpy as np

import tapestry
from tapestry.optimizer.structure.parameter_folding import fold_parameters, folding_rules, work_per_run
from tapestry.rewrites import RULES, Move, replay, saturate
from tapestry.rewrites.preparation import prepared
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx

GRAPHS = Path(__file__).resolve().parents[2] / "data" / "graphs"
SATURATING = [rule for rule in RULES if rule.saturating]


def moves_of(graph: Graph) -> list[Move]:
    return fold_parameters(graph, folding_rules(), SATURATING).moves


def test_every_batch_normalization_goes_into_its_convolution() -> None:
    given = from_onnx(GRAPHS / "tiny_resnet50_b16_224.winputs.onnx")
    simple = saturate(given, SATURATING)
    done = fold_parameters(simple.graph, folding_rules(), SATURATING)
    assert sum(len(m.places) for m in done.moves if m.rule == "fold_into_conv") == sum(
        block.operator == "conv" for block in given.blocks
    )
    assert replay(simple.graph, done.moves) == done.graph
    assert work_per_run(done.graph) < work_per_run(simple.graph) <= work_per_run(given)

    parts = prepared(done.graph)
    assert parts is not None
    inputs = random_inputs(given, np.random.default_rng(0))
    once = evaluate(parts.before, {t: v for t, v in inputs.items() if t in parts.before.tensors})
    known = {t: v for t, v in inputs.items() if t in parts.program.tensors}
    found = evaluate(parts.program, known | {t.removesuffix(".prepared"): v for t, v in once.items()})
    for site, wanted in evaluate(given, inputs).items():
        np.testing.assert_allclose(found[site], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def scaled(rows: int, role: str) -> Graph:
    """Build `x w s` of a matrix `x` with so many rows; `s` is an input or a parameter."""
    b = tapestry.program()
    x, w = b.input("x", row=rows, k=4), b.parameter("w", k=4, out=5)
    s = b.input("s", out=5) if role == "input" else b.parameter("s", out=5)
    b.output("y", x @ w * s)
    return b.graph


def test_a_scale_goes_to_where_it_is_computed_once() -> None:
    graph = scaled(2, "parameter")
    done = fold_parameters(graph, folding_rules(), SATURATING)
    assert done.moves[0].rule == "fold_into_contract"
    assert work_per_run(graph) == (2 * 2 * 4 * 5 + 2 * 5, 6)
    assert work_per_run(done.graph) == (2 * 2 * 4 * 5, 4)


def test_a_scale_that_comes_with_every_run_is_moved_only_where_that_is_less_work() -> None:
    assert moves_of(scaled(2, "input")) == []
    assert moves_of(scaled(9, "input"))[0].rule == "fold_into_contract"


def test_what_a_training_step_changes_is_not_folded_for_once() -> None:
    b = tapestry.program()
    x, w, s = b.input("x", row=2, k=4), b.parameter("w", k=4, out=5), b.parameter("s", out=5)
    y = x @ w * s
    b.output("y", y)
    b.update(s, s - y.sum("row"))
    b.update(w, w - 1.0)
    assert moves_of(b.graph) == []
