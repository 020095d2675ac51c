"""Tests of an inference program in two parts: values that depend on parameters only are computed once."""

from pathlib import Path

import numpy as np

import tapestry
from tapestry.rewrites import RULES, apply_all, find, rule_named, saturate
from tapestry.rewrites.preparation import Prepared, prepared
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import check

GRAPHS = Path(__file__).resolve().parents[1] / "data" / "graphs"


def assert_same(graph: Graph, parts: Prepared) -> None:
    """Check that evaluating one part after the other gives the values of the undivided program."""
    for part in parts:
        check(part)
    inputs = random_inputs(graph, np.random.default_rng(0))
    first = evaluate(parts.before, {t: v for t, v in inputs.items() if t in parts.before.tensors})
    known = {t: v for t, v in inputs.items() if t in parts.program.tensors}
    got = evaluate(parts.program, known | {t.removesuffix(".prepared"): v for t, v in first.items()})
    for site, wanted in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(got[site], wanted)


def test_folded_weights_are_made_before() -> None:
    graph = from_onnx(GRAPHS / "tiny_resnet50_b16_224.winputs.onnx")
    graph = saturate(graph, [r for r in RULES if r.saturating]).graph
    while moves := find(graph, [rule_named("fold_into_conv")]):
        graph = apply_all(graph, {m.place: m for m in reversed(moves)}.values()).graph
    parts = prepared(graph)
    assert parts is not None
    assert_same(graph, parts)
    read = {t for b in parts.program.blocks if b.operator == "cell" for t in b.inputs}
    assert not any("var" in t for t in read)
    cells = sum(b.operator == "cell" for b in parts.program.blocks)
    assert cells == sum(b.operator == "cell" for b in graph.blocks) - 2 * 12


def test_what_the_program_changes_itself_is_not_settled() -> None:
    p = tapestry.program()
    x, w = p.input("x", row=3, column=4), p.parameter("w", column=4)
    p.output("y", x * w.exp())
    assert prepared(p.graph) is not None
    p = tapestry.program()
    x, w = p.input("x", row=3, column=4), p.parameter("w", column=4)
    p.update(w, w - (x * w.exp()).sum("row"))
    assert prepared(p.graph) is None


def test_a_program_of_activations_has_nothing_to_prepare() -> None:
    p = tapestry.program()
    p.output("y", p.input("x", row=3).exp())
    assert prepared(p.graph) is None


def test_what_is_read_by_both_parts_is_in_both() -> None:
    p = tapestry.program()
    x, w = p.input("x", row=3), p.parameter("w", row=3)
    p.output("y", x * w + w.exp().tanh())
    parts = prepared(p.graph)
    assert parts is not None
    assert_same(p.graph, parts)
    assert sum(b.operator == "source" for b in parts.program.blocks) == 3
