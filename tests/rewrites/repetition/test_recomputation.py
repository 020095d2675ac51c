"""Tests of repetitions: who reads them, that simplification leaves them apart, and that they survive every form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.rewrites import RULES, Move, apply_move, find, rule_named, saturate
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.repeating import after_readers
from tapestry.teg.document import from_document, to_document
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.operators.fused_body import FUSED
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.external_graphs import recover_external
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.recover import recover
from tests.teg.sharding.looped import training
from tests.teg.sharding.programs import random_placements

SATURATING = [rule for rule in RULES if rule.saturating]


def stored() -> Graph:
    return training(8)


def repeated(graph: Graph, place: str, early: int) -> Graph:
    return apply_move(graph, Move("recompute", place, after_readers(early)))


def sites(graph: Graph) -> list[str]:
    return [block.site for block in graph.blocks]


@pytest.mark.parametrize("early", (1, 2))
def test_late_readers_read_the_repetition_that_runs_before_the_first_of_them(early: int) -> None:
    graph = stored()
    readers = [block.site for block, _ in graph.readers["active"]]
    assert readers == ["found", "step.w2", "gated"]
    after = repeated(graph, "active", early)
    assert [b.site for b, _ in after.readers["active"]] == readers[:early]
    assert [b.site for b, _ in after.readers["active~again"]] == readers[early:]
    order = sites(after)
    assert order.index("active~again") == order.index(readers[early]) - 1
    assert [s for s in order if s != "active~again"] == sites(graph)
    inputs = random_inputs(graph, np.random.default_rng(0))
    for site, value in evaluate(graph, inputs).items():
        np.testing.assert_array_equal(evaluate(after, inputs)[site], value)


def test_simplification_keeps_it_and_a_rule_takes_it_back() -> None:
    after = repeated(stored(), "active", 1)
    assert after.structural_hash != stored().structural_hash
    assert "active~again" in saturate(after, SATURATING).graph.by_site
    (move,) = (m for m in find(after, RULES) if m.rule == "store_repeated")
    assert apply_move(after, move).structural_hash == stored().structural_hash


def test_what_a_rule_makes_of_a_repetition_is_one() -> None:
    b = ExampleBuilder("softmax")
    x = b.tensor("x", 4, 6)
    y = b.op("softmax", x, axes=(1,), site="y")
    total = b.contract("rc,rc->", y, y)
    graph = b.result(b.cell(("mul", ("input", 0), ("input", 1)), {y: "rc", total: ""}))
    after = repeated(graph, "y", 1)
    move = next(m for m in find(after, [rule_named("expand_softmax")]) if m.place == "y~again")
    made = apply_move(after, move)
    new = [made.by_site[s] for s in made.by_site.keys() - after.by_site.keys()]
    assert new and all(block.repetition == 1 for block in new)
    both = apply_move(made, Move("expand_softmax", "y", move.choice))
    assert len(saturate(both, SATURATING).graph.blocks) > len(graph.blocks) + 1


def test_all_results_of_a_block_are_computed_again() -> None:
    b = ExampleBuilder("several")
    x = b.tensor("x", 4, 6)
    names, dims, kind = ("r", "c"), (("r", 4), ("c", 6)), ((4, 6), "float32")
    cells = [
        (("dims", dims), ("dtype", "float32"), ("expr", (name, ("input", 0))), ("labels", (names,)))
        for name in ("tanh", "exp")
    ]
    body = (("cell", cells[0], (0,)), ("cell", cells[1], (0,)))
    first, second = b.apply(FUSED, (x,), site="both", body=body, types=(kind,), results=(1, 2))
    total = b.contract("rc,rc->", first, first)
    late = [b.cell(("mul", ("input", 0), ("input", 1)), {t: "rc", total: ""}) for t in (first, second)]
    graph = b.result(*late)
    after = repeated(graph, "both", 1)
    assert [len(after.readers[t]) for t in after.by_site["both~again"].outputs] == [1, 1]
    (move,) = (m for m in find(after, RULES) if m.rule == "store_repeated")
    assert apply_move(after, move).structural_hash == graph.structural_hash
    # Where nothing marks it as a repetition, it is one too many.
    twin = replace(after.by_site["both~again"], repetition=0)
    doubled = after.replace(twin if block.site == twin.site else block for block in after.blocks)
    (move,) = (m for m in find(doubled, RULES) if m.rule == "equal_blocks")
    assert apply_move(doubled, move).structural_hash == graph.structural_hash


def test_a_block_moves_before_its_first_reader() -> None:
    b = ExampleBuilder("late")
    x = b.tensor("x", 4, 6)
    mask = b.cell(("exp", ("input", 0)), {x: "rc"}, site="mask")
    other = b.cell(("tanh", ("input", 0)), {x: "rc"}, site="other")
    graph = b.result(b.cell(("mul", ("input", 0), ("input", 1)), {mask: "rc", other: "rc"}, site="y"))
    after = apply_move(graph, Move("postpone", "mask"))
    assert sites(after)[:4] == ["x", "other", "mask", "y"]
    assert after.structural_hash == graph.structural_hash


@pytest.mark.parametrize("seed", range(3))
def test_repetitions_survive_documents_and_expansion(seed: int) -> None:
    graph = repeated(stored(), "active", 1)
    assert from_document(to_document(graph)) == graph
    rng, mesh_shape = np.random.default_rng(seed), MeshShape.of(node=2, gpu=2)
    program = materialize(expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape))
    assert recover(program).structural_hash == graph.structural_hash
    assert recover_external(program.graph).structural_hash == graph.structural_hash


def test_a_negative_count_is_refused_by_its_place() -> None:
    document = to_document(repeated(stored(), "active", 1))
    block = next(b for b in document["blocks"] if b["site"] == "active~again")
    block["repetition"] = -1
    with pytest.raises(ValueError, match="repetition"):
        from_document(document)
