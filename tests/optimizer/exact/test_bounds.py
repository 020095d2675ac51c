"""Tests of bounds: no plan is below them, be it random, searched or any of a small space."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import TIME
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.bounds import time_bound
from tapestry.optimizer.exact.loops import largest_between
from tapestry.optimizer.exact.trws import solve
from tapestry.optimizer.run.search import search
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, MESHES, layers, product_of, random_genes


def some_time(space: PlanSpace, costs: AdditiveCosts) -> int:
    """Return the time of the plan whose blocks and copies add up to the least."""
    labels = solve(costs.problem(Weights(compute_ticks=1.0, copy_ticks=1.0))).labels
    nothing = np.zeros(space.edge_count, np.int64)
    return int(space.evaluate(Genes(costs.genes(labels), nothing, nothing))[TIME])


@pytest.mark.parametrize(("name", "mesh"), one_in(4, product(GRAPHS, MESHES)))
@pytest.mark.parametrize("order", SCHEDULE_ORDERS)
def test_no_plan_is_faster_than_the_bound(name: str, mesh: str, order: str, rng: np.random.Generator) -> None:
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh), schedule_order=order)
    costs = AdditiveCosts(space.space)
    known = some_time(space, costs)
    bound = time_bound(costs, known)
    assert 0 < bound <= known
    for _ in range(200):
        assert space.evaluate(random_genes(rng, space))[TIME] >= bound


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_every_choice_of_shares_bounds_every_plan(share: float, rng: np.random.Generator) -> None:
    """Check the inequality itself, for shares at random: what counts of blocks and copies is at most the time."""
    for name in ("attention", "joints", "convolutions"):
        space = PlanSpace(GRAPHS[name](), load_mesh("2x-dgx-h100"))
        costs = AdditiveCosts(space.space)
        for _ in range(60):
            genes = random_genes(rng, space)
            shares = np.where(
                rng.random(space.space.slot_count) < share, 1.0, rng.random(space.space.slot_count)
            )
            most, _ = largest_between(costs.spans, shares)
            problem = costs.problem(
                Weights(compute_ticks=1.0, least_copy_ticks=1.0),
                shared=True,
                slot_shares=shares,
                edge_shares=(1.0 - most) * costs.queue_share,
            )
            counted = problem.energy(np.asarray(genes.strategies[costs.gene_of_node]))
            assert counted <= space.evaluate(genes)[TIME] * (1 + 1e-12)


def test_the_bound_of_one_product_is_the_least_time_of_all_plans() -> None:
    space = PlanSpace(product_of(256, 256, 256), load_mesh("cpu-node"))
    costs = AdditiveCosts(space.space)
    nothing = np.zeros(space.edge_count, np.int64)
    counts = space.space.strategy_count.tolist()
    assert np.prod(counts) < 1e5
    all_plans = {tuple(space.with_state(np.array(c))) for c in product(*map(range, counts))}
    least = min(int(space.evaluate(Genes(np.array(c), nothing, nothing))[TIME]) for c in all_plans)
    bound = time_bound(costs, least)
    assert bound <= least
    assert bound >= 0.8 * least


def test_the_bound_is_near_what_a_search_finds() -> None:
    found = search(layers(3), load_mesh("dgx-h100"), budget=Budget(evaluations=20_000), islands=1)
    space = PlanSpace(layers(3), load_mesh("dgx-h100"))
    fastest = min(plan.cost["time_s"] for plan in found.frontier) * 1e12
    bound = time_bound(AdditiveCosts(space.space), fastest)
    assert 0.5 * fastest < bound


def test_the_largest_share_is_that_of_slots_strictly_between() -> None:
    shares = np.array([0.9, 0.2, 0.7, 0.1, 1.0])
    spans = np.array([[0, 1], [0, 2], [0, 4], [-1, 1], [1, 4]])
    most, at = largest_between(spans, shares)
    assert most.tolist() == [0.0, 0.2, 0.7, 0.9, 0.7]
    assert at.tolist() == [-1, 1, 2, 0, 2]
