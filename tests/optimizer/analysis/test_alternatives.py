"""Tests of the alternatives of a block: their costs are those of the changed plan, by the plain cost model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.analysis.alternatives import (
    Alternative,
    Alternatives,
    BlockQuestion,
    UnknownBlock,
    alternatives,
)
from tapestry.optimizer.archive.constraints import parse_constraint
from tapestry.optimizer.archive.report import costs_of
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.strategy import Strategy
from tests.costmodel.programs import GRAPHS, layers, random_genes
from tests.costmodel.test_stages import WAYS, staged_space
from tests.teg.sharding.looped import in_rounds, training


def changed(placements: Placements, strategies: dict[str, Strategy]) -> Placements:
    blocks = dict(placements.blocks)
    for site, strategy in strategies.items():
        blocks[site] = replace(blocks[site], strategy=strategy)
    return replace(placements, blocks=blocks)


def check(graph: Graph, placements: Placements, mesh: Mesh, found: Alternatives, few: int = 6) -> None:
    """Compare some alternatives with the plain model."""
    used = mesh if placements.stages is not None else mesh.part(mesh.axis_sizes)
    step = max(1, len(found.others) // few)
    for each in (found.current, *found.others[::step]):
        strategies = dict.fromkeys(found.sites, each.strategy) | dict(each.followed)
        plan = changed(placements, strategies)
        tally = reference_cost(graph, plan, mesh)
        assert dict(each.cost) == costs_of(tally.vector(), used)
        moved = sum(c.after.traffic_bytes - c.before.traffic_bytes for c in each.copies)
        assert moved == each.cost["traffic_bytes"] - found.current.cost["traffic_bytes"]


def random_plan(graph: Graph, mesh: Mesh, seed: int, rounds: int = 1) -> Placements:
    space = PlanSpace(graph, mesh, rounds=in_rounds(rounds) if rounds > 1 else None)
    return space.placements(random_genes(np.random.default_rng(seed), space))


@pytest.mark.parametrize(
    ("name", "site"), [("attention", 0), ("perceptron", 1), ("joints", 2), ("attention", -1)]
)
def test_costs_are_those_of_the_changed_plan(name: str, site: int) -> None:
    graph, mesh = GRAPHS[name](), load_mesh("2x-dgx-h100")
    placements = random_plan(graph, mesh, 7)
    blocks = [b for b in graph.blocks if not b.is_view and b.operator not in ("source", "sink")]
    found = alternatives((graph, placements), BlockQuestion(blocks[site].site), mesh)
    assert found.is_complete
    assert found.current.strategy == placements.of(blocks[site]).strategy
    assert found.current.strategy not in [each.strategy for each in found.others]
    assert not found.current.copies
    check(graph, placements, mesh, found)


@pytest.mark.parametrize("site", ["w1", "updated.w1", "step.w1", "found"])
def test_costs_in_rounds_are_those_of_the_changed_plan(site: str) -> None:
    graph, mesh = training(24, state=True), load_mesh("dgx-h100")
    placements = random_plan(graph, mesh, 8, rounds=3)
    found = alternatives((graph, placements), BlockQuestion(site), mesh)
    assert found.block.site == ("w1" if site == "updated.w1" else site)
    assert found.others
    check(graph, placements, mesh, found)


@pytest.mark.parametrize("way", WAYS[:3], ids=lambda way: f"{way[0]}-{way[3]}-{way[4]}")
def test_costs_in_stages_are_those_of_the_changed_plan(way: tuple[str, str, int, str, int, int]) -> None:
    rng, mesh = np.random.default_rng(9), load_mesh(way[0])
    space = staged_space(mesh, way, rng)
    placements = replace(space.placements(random_genes(rng, space)), devices=way[1])
    found = alternatives((space.graph, placements), BlockQuestion("found"), mesh)
    check(space.graph, placements, mesh, found)


def test_equal_layers_may_change_alike() -> None:
    graph, mesh = layers(3), load_mesh("dgx-h100")
    space = PlanSpace(graph, mesh)
    placements = space.placements(space.abstract_genes())
    found = alternatives((graph, placements), BlockQuestion("up1", is_tied=True), mesh)
    assert found.sites == ("up1", "up0", "up2")
    check(graph, placements, mesh, found)
    one = alternatives((graph, placements), BlockQuestion("up1"), mesh)
    assert one.sites == ("up1",)
    assert {e.strategy for e in one.others} == {e.strategy for e in found.others}
    check(graph, placements, mesh, one)


def test_neighbors_follow_where_that_costs_less() -> None:
    graph, mesh = layers(2), load_mesh("dgx-h100")
    space = PlanSpace(graph, mesh)
    placements = space.placements(space.abstract_genes())
    alone = alternatives((graph, placements), BlockQuestion("up1"), mesh)
    found = alternatives((graph, placements), BlockQuestion("up1", objective="time_s"), mesh)
    before = {each.strategy: each.cost["time_s"] for each in alone.others}
    assert set(found.neighbors) == {"down0", "u1", "act1"}
    assert all(each.cost["time_s"] <= before[each.strategy] for each in found.others)
    assert any(each.cost["time_s"] < before[each.strategy] for each in found.others)
    check(graph, placements, mesh, found)


def test_a_bound_that_is_broken_is_named_with_its_limit() -> None:
    graph, mesh = layers(2), load_mesh("dgx-h100")
    space = PlanSpace(graph, mesh)
    placements = space.placements(space.abstract_genes())
    state = (graph, placements)
    free = alternatives(state, BlockQuestion("up1"), mesh)
    limit = int(free.current.cost["traffic_bytes"])
    bounds = (parse_constraint(f"traffic_bytes<={limit}"), parse_constraint("time_s<=100%"))
    best = {"time_s": free.current.cost["time_s"]}
    found = alternatives(state, BlockQuestion("up1", bounds=bounds, best=best), mesh)

    def broken(each: Alternative) -> set[str]:
        costs = {"traffic_bytes": limit, "time_s": best["time_s"]}
        return {name for name, most in costs.items() if each.cost[name] > most}

    assert {frozenset(broken(each)) for each in found.others} >= {frozenset({"traffic_bytes", "time_s"})}
    for each in (found.current, *found.others):
        assert {excess.constraint.objective for excess in each.excesses} == broken(each)
        assert all(excess.value > excess.limit for excess in each.excesses)


def test_the_time_of_a_block_is_that_of_its_part() -> None:
    graph, mesh = layers(1), load_mesh("dgx-h100")
    space = PlanSpace(graph, mesh)
    genes = space.abstract_genes()
    found = alternatives((graph, space.placements(genes)), BlockQuestion("up0"), mesh)
    space.evaluate(genes)
    assert found.current.block_s == space.state.slot_ticks[space.gene_of["up0"]] / TICKS_PER_S


@pytest.mark.parametrize(
    ("name", "site", "message"),
    [
        ("attention", "nowhere", "no block 'nowhere'"),
        ("perceptron", "turn", "'turn' is a view.*'act' decides"),
    ],
)
def test_what_has_no_placement_is_refused(name: str, site: str, message: str) -> None:
    graph, mesh = GRAPHS[name](), load_mesh("dgx-h100")
    with pytest.raises(UnknownBlock, match=message):
        alternatives((graph, random_plan(graph, mesh, 1)), BlockQuestion(site), mesh)
