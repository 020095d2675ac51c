"""Tests of folding: scales and shifts of parameters move from the activations to the weights."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import tapestry
from tapestry.rewrites import RULES, ExampleSizes, Rule, apply_all, apply_move, find, rule_named, saturate
from tapestry.rewrites.algebra.affine import affine, factors, multiplied
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.validate import check

GRAPHS = Path(__file__).resolve().parents[2] / "data" / "graphs"
X, S, T, Z = (("input", k) for k in range(4))


@cache
def saturated(name: str) -> Graph:
    return saturate(from_onnx(GRAPHS / f"{name}.onnx"), [r for r in RULES if r.saturating]).graph


def named(*names: str) -> list[Rule]:
    return [rule_named(n) for n in names]


def folded(graph: Graph) -> Graph:
    """Fold everything behind a convolution, one block after the other."""
    rules = named("fold_into_conv")
    while moves := find(graph, rules):
        places = {m.place: m for m in reversed(moves)}
        graph = apply_all(graph, places.values()).graph
    return graph


@pytest.mark.slow
@pytest.mark.parametrize("name, count", [("resnet50_b16_224", 53), ("light_resnet50", 53)])
def test_every_batch_norm_of_a_published_network_folds(name: str, count: int) -> None:
    moves = find(saturated(name), named("fold_into_conv"))
    assert len(moves) == count
    after = folded(saturated(name))
    cells = [b for b in after.blocks if b.operator == "cell" and b.inputs]
    behind = [b for b in cells if any(after.producers[t].operator == "conv" for t in b.inputs)]
    assert not any("sqrt" in repr(b.definition["expr"]) for b in behind)


def test_a_folded_network_gives_its_reference_output() -> None:
    graph = saturated("tiny_resnet50_b16_224.winputs")
    after = folded(graph)
    check(after)
    stored = np.load(GRAPHS / "tiny_resnet50_b16_224.winputs.npz")
    inputs = {k.removeprefix("in:"): stored[k] for k in stored.files if k.startswith("in:")}
    (wanted,) = (stored[k] for k in stored.files if k.startswith("out:"))
    (got,) = evaluate(after, inputs).values()
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-5)


def test_a_fold_leaves_one_bias_and_what_is_no_parameter() -> None:
    graph = rule_named("fold_into_conv").example(ExampleSizes())
    (move,) = find(graph, named("fold_into_conv"))
    after = apply_move(graph, move)
    (cell,) = [b for b in after.blocks if "relu" in repr(b.definition.get("expr"))]
    assert cell.definition["expr"] == ("relu", ("add", ("add", ("input", 0), ("input", 2)), ("input", 1)))
    assert [after.producers[t].operator for t in cell.inputs] == ["conv", "source", "cell"]
    assert after.tensors[cell.inputs[2]].shape == (4,)


def test_what_another_block_reads_is_not_folded() -> None:
    b = ExampleBuilder("shared")
    x, w, s = b.tensor("x", 3, 4), b.tensor("w", 4, 5), b.tensor("s", 5)
    y = b.contract("mk,kn->mn", x, w)
    scaled = b.cell(("mul", X, S), {y: "mn", s: "n"})
    assert find(b.result(scaled, y), named("fold_into_contract")) == []


def test_a_scale_per_row_goes_into_the_operand_with_the_rows() -> None:
    b = ExampleBuilder("rows")
    x, w, s = b.tensor("x", 3, 4), b.tensor("w", 4, 5), b.tensor("s", 3)
    y = b.cell(("mul", X, S), {b.contract("mk,kn->mn", x, w): "mn", s: "m"})
    assert [m.choice for m in find(b.result(y), named("fold_into_contract"))] == ["0"]


@pytest.mark.parametrize("pads, wanted", [(0, ["shift_through_conv"]), (1, [])])
def test_a_shift_before_a_convolution_becomes_a_bias_where_nothing_is_padded(
    pads: int, wanted: list[str]
) -> None:
    p = tapestry.program()
    x, w = p.input("x", n=2, c=4, y=7, x=7), p.parameter("w", out=6, c=4, ty=3, tx=3)
    mean, scale, shift = (p.parameter(k, c=4) for k in ("mean", "scale", "shift"))
    p.output("y", ((x - mean) * scale + shift).conv(w, pads=pads))
    graph = saturate(p.graph, [r for r in RULES if r.saturating]).graph
    moves = find(graph, named("shift_through_conv", "factor_into_conv"))
    assert [m.rule for m in moves] == wanted
    for move in moves:
        after = apply_move(graph, move)
        assert [after.producers[t].operator for t in after.by_site["y"].inputs] == ["cell"]
        (conv,) = [b for b in after.blocks if b.operator == "conv"]
        assert conv.inputs[0] == "x"


def test_affine_forms() -> None:
    normal = ("add", ("div", ("sub", X, T), S), Z)
    found = affine(normal, 0, {1, 2})
    assert found is not None
    assert found.scale == ("div", ("const", 1.0), S)
    assert found.terms == ((True, ("div", T, S)), (False, Z))
    assert affine(("mul", ("add", X, Z), S), 0, {1, 2}) is None
    assert affine(("mul", X, X), 0, {1}) is None
    assert affine(("exp", X), 0, {1}) is None


def test_products_fall_apart_and_come_together() -> None:
    split = factors(("div", ("mul", X, S), T))
    assert split == [(False, X), (False, S), (True, T)]
    assert multiplied(split) == ("div", ("mul", X, S), T)
    assert multiplied([(True, T)]) == ("div", ("const", 1.0), T)
