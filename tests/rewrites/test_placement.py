"""Tests of placement moves: legal plans only, histories that lead back, values that never change."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.rewrites import (
    PLACEMENT,
    RULES,
    Move,
    StaleMove,
    apply_placement,
    find,
    placement_moves,
    replay_plan,
)
from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.operators.selectors import permuted
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.stages import Stages

MESH_SHAPE = MeshShape.of(node=2, gpu=3)


# Moves of every rule and every option, each legal in `layer` wherever the other blocks lie.
MOVES = (
    Move("reshard", "x", "(node.0, gpu.0)"),
    Move("reshard", "w", "(-, node.0)"),
    Move("reshard", "y", "(node.0, -, gpu.0)"),
    Move("reshard", "y", "(-, node.0*gpu.0, -)"),
    Move("reshard", "z", "(gpu.0, node.0)"),
    Move("follow", "x", "y:0"),
    Move("follow", "w", "y:1"),
    Move("prefetch", "y", "0:2"),
    Move("prefetch", "z", "0:4"),
    Move("regather", "y", "1:on"),
    Move("regather", "y", "1:off"),
    Move("store_as", "x", "0:{0,1}"),
    Move("read_as", "y", "1:{0,1}"),
    Move("assign", "y", "0"),
    Move("set_option", "order", "depth-first"),
    Move("set_option", "inputs", "replicated"),
    Move("set_option", "inputs", "chosen"),
    Move("set_option", "outputs", "gathered"),
)


def layer() -> Graph:
    b = ExampleBuilder("layer")
    x, w = b.tensor("x", 4, 6), b.tensor("w", 5, 6, role="parameter")
    y = b.contract("mk,kn->mn", x, b.view(w, permuted((5, 6), (1, 0)), "turned"), site="y")
    return b.result(b.cell(("tanh", INPUT), {y: "mn"}, site="z"))


def test_a_block_is_resharded_and_the_rest_stays() -> None:
    move = Move("reshard", "y", "(node.0, -, gpu.0)")
    placed = apply_placement(layer(), Placements(), move, MESH_SHAPE)
    assert str(placed.blocks["y"].strategy) == "(node.0, -, gpu.0)"
    assert set(placed.blocks) == {"y"}


def test_a_source_follows_its_reader_through_views() -> None:
    graph = layer()
    placed = apply_placement(graph, Placements(), Move("reshard", "y", "(node.0, -, gpu.0)"), MESH_SHAPE)
    placed = apply_placement(graph, placed, Move("follow", "w", "y:1"), MESH_SHAPE)
    assert str(placed.blocks["w"].strategy) == "(-, gpu.0)"


def test_prefetch_and_regather_are_genes_of_an_input() -> None:
    graph = layer()
    placed = apply_placement(graph, Placements(), Move("prefetch", "y", "1:3"), MESH_SHAPE)
    placed = apply_placement(graph, placed, Move("regather", "y", "0:on"), MESH_SHAPE)
    assert (placed.blocks["y"].prefetch, placed.blocks["y"].regather) == ((0, 3), (True, False))
    placed = apply_placement(graph, placed, Move("regather", "y", "0:off"), MESH_SHAPE)
    assert placed.blocks["y"].regather == (False, False)


def test_a_plan_may_use_a_part_of_the_mesh() -> None:
    move = Move("set_option", "devices", "node:1,gpu:3")
    placed = apply_placement(layer(), Placements(), move, MESH_SHAPE)
    assert placed.devices == "node:1,gpu:3"
    assert check_placements(layer(), placed, MESH_SHAPE) == []


def test_one_move_places_tied_blocks_alike() -> None:
    placed = apply_placement(layer(), Placements(), Move("reshard", ("x", "z"), "(gpu.0, -)"), MESH_SHAPE)
    assert {site: str(p.strategy) for site, p in placed.blocks.items()} == dict.fromkeys("xz", "(gpu.0, -)")


@pytest.mark.parametrize(
    ("move", "reason"),
    [
        (Move("reshard", "q", "()"), "there is no block 'q'"),
        (Move("reshard", "turned", "(-, -)"), "is a view, which lies where its root lies"),
        (Move("reshard", "z", "(gpu.0)"), "expected 2 index dimensions"),
        (Move("reshard", "z", "(gpu.7, -)"), "the mesh has no sub-axis 'gpu.7'"),
        (Move("reshard", "z", "(gpu.0, gpu.0)"), "is used 2 times"),
        (Move("reshard", "z", "nonsense"), "position 0: expected"),
        (Move("follow", "w", "z:0"), "expected one of its readers y:1"),
        (Move("follow", "z", "y:1"), "there are none"),
        (Move("prefetch", "y", "2:1"), "expected an input below 2"),
        (Move("prefetch", "y", "1:soon"), "expected 'input:blocks ahead'"),
        (Move("regather", "y", "1:maybe"), "expected 'input:on' or 'input:off'"),
        (Move("prefetc", "y", "1:1"), "did you mean prefetch"),
        (Move("set_option", "inputs", "anywhere"), "the options of a plan are order: program"),
        (Move("set_option", "wishes", "granted"), "the options of a plan are"),
        (Move("assign", "y", "1"), "is in part 1 of a pipeline"),
        (Move("assign", "y", "last"), "expected the number of a part"),
        (Move("set_option", "stages", "9 x gpipe"), "share devices"),
    ],
)
def test_what_is_not_legal_is_refused_with_its_reason(move: Move, reason: str) -> None:
    with pytest.raises(StaleMove, match=reason):
        apply_placement(layer(), Placements(), move, MESH_SHAPE)


def test_every_move_leads_from_a_legal_plan_to_a_legal_plan(rng: np.random.Generator) -> None:
    graph, placements = layer(), Placements()
    assert {m.rule for m in MOVES} == {r.name for r in PLACEMENT} | {"set_option"}
    for move in rng.permutation(np.array(MOVES, dtype=object)):
        placed = apply_placement(graph, placements, move, MESH_SHAPE)
        assert check_placements(graph, placed, MESH_SHAPE) == []
        assert apply_placement(graph, placed, move, MESH_SHAPE) == placed
        placements = placed


def test_the_moves_between_two_plans_lead_from_one_to_the_other(rng: np.random.Generator) -> None:
    graph, plans = layer(), [Placements()]
    for _ in range(10):
        plans.append(apply_placement(graph, plans[-1], MOVES[rng.integers(len(MOVES))], MESH_SHAPE))
    for after in plans:
        reached = plans[3]
        for move in placement_moves(graph, reached, after):
            reached = apply_placement(graph, reached, move, MESH_SHAPE)
        assert placement_moves(graph, reached, after) == []
        assert all(reached.of(b).strategy == after.of(b).strategy for b in graph.blocks)


def test_equal_changes_are_tied() -> None:
    graph = layer()
    after = apply_placement(graph, Placements(), Move("reshard", ("x", "z"), "(gpu.0, -)"), MESH_SHAPE)
    assert placement_moves(graph, Placements(), after) == [Move("reshard", ("x", "z"), "(gpu.0, -)")]


def test_a_history_of_both_kinds_replays_and_keeps_the_values(rng: np.random.Generator) -> None:
    b = ExampleBuilder("both")
    x = b.tensor("x", 4, 6)
    graph = b.result(b.op("softmax", b.cell(("neg", INPUT), {x: "rc"}, site="n"), axes=(1,), site="y"))
    (expansion,) = find(graph, [r for r in RULES if r.name == "expand_softmax"])
    moves = [
        expansion,
        Move("reshard", "x", "(node.0, gpu.0)"),
        Move("reshard", "n", "(node.0, gpu.0)"),
        *(Move("reshard", site, "(node.0, gpu.0)") for site in expanded_sites(graph, expansion)),
    ]
    after, placements = replay_plan(graph, moves, MESH_SHAPE)
    explicit = expand(after, placements, MESH_SHAPE)
    inputs = random_inputs(graph, rng)
    wanted, got = evaluate(graph, inputs)["y.out"], evaluate(after, inputs)["y.out"]
    np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert explicit is not None


def expanded_sites(graph: Graph, move: Move) -> list[str]:
    after, _ = replay_plan(graph, [move], MESH_SHAPE)
    return [b.site for b in after.blocks if b.site not in graph.by_site and b.operator in ("cell", "reduce")]


def test_names_do_not_meet_those_of_structural_rules() -> None:
    assert not {r.name for r in PLACEMENT} & {r.name for r in RULES}


@pytest.mark.parametrize("rule", PLACEMENT, ids=lambda r: r.name)
def test_a_placement_rule_explains_itself(rule) -> None:  # type: ignore[no-untyped-def]
    first, blank, form, *_ = rule.doc.splitlines()
    assert first.endswith(".") and not blank and "->" in form and rule.source


def test_a_plan_gets_its_stages_before_blocks_are_in_parts() -> None:
    graph, stages = layer(), Stages(2, "gpipe")
    after = replace(Placements(), devices="node:1", stages=stages)
    for site in ("y", "z"):
        after = apply_placement(graph, after, Move("assign", site, "1"), MESH_SHAPE)
    moves = placement_moves(graph, Placements(), after)
    assert [move.rule for move in moves] == ["set_option", "set_option", "assign"]
    reached = Placements()
    for move in moves:
        reached = apply_placement(graph, reached, move, MESH_SHAPE)
    assert placement_moves(graph, reached, after) == [] and reached.stages == stages
