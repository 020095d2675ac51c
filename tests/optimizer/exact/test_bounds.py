"""Tests of bounds: no plan is below them, be it random, searched or any of a small space."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.kernel_arrays import TIME
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer import Budget
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.bounds import TIME_WEIGHTS, Mix, counted_shares, time_bound
from tapestry.optimizer.exact.loops import largest_between
from tapestry.optimizer.exact.trws import solve
from tapestry.optimizer.run.search import search
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.teg.operators.selectors import sliced
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tests.cases import examples, one_in
from tests.costmodel.programs import GRAPHS, MESHES, layers, product_of, random_genes
from tests.hardware.simulator.programs import random_program

pytestmark = pytest.mark.slow


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


def random_mix(rng: np.random.Generator, costs: AdditiveCosts) -> Mix:
    """Draw shares of slots, some of them all or nothing, and of readers, some of whom pay for all."""
    slots = rng.random(costs.space.slot_count)
    slots = np.where(rng.random(len(slots)) < rng.random(), np.round(slots), slots)
    return Mix(slots, costs.as_shares(rng.random(len(costs.readers)) ** rng.choice([0.0, 1.0, 20.0])))


@settings(max_examples=examples(20))
@given(
    mesh=st.sampled_from(("dgx-h100", "2x-dgx-h100", "tpu-v4-2x2x2", "t3000")), seed=st.integers(0, 2**32 - 1)
)
def test_every_mix_bounds_every_plan(mesh: str, seed: int) -> None:
    """Check the inequality itself, for mixes at random: what counts of blocks and copies is at most the time."""
    rng = np.random.default_rng(seed)
    graph = random_program(rng) if seed % 2 else GRAPHS[str(rng.choice(list(GRAPHS)))]()
    space = PlanSpace(graph, load_mesh(mesh), compute_dtype="bf16")
    costs = AdditiveCosts(space.space)
    for _ in range(20):
        genes, mix = random_genes(rng, space), random_mix(rng, costs)
        counted, _, _ = counted_shares(costs, mix, largest_between(costs.spans, mix.slots)[0])
        problem = costs.problem(TIME_WEIGHTS, shared=mix.readers, slot_shares=mix.slots, edge_shares=counted)
        labels = np.asarray(space.with_state(genes.strategies)[costs.gene_of_node])
        assert problem.energy(labels) <= space.evaluate(genes)[TIME] * (1 + 1e-12)


def test_parts_of_one_tensor_that_differ_are_copied_each() -> None:
    """Build three windows of one tensor, as of queries, keys and values, which no copy serves together."""
    b = ExampleBuilder("windows")
    x = b.tensor("x", 256, 768)
    windows = [b.view(x, sliced((256, 768), (0, k * 256), (256, (k + 1) * 256)), f"v{k}") for k in range(3)]
    graph = b.result(*(b.cell(("neg", ("input", 0)), {window: "mn"}) for window in windows))
    costs = AdditiveCosts(PlanSpace(graph, load_mesh("dgx-h100")).space)
    assert costs.readers.max() == 1


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
