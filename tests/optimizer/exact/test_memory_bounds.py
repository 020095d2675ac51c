"""Tests of bounds of memory: what counts at a sample lives there in every plan, whenever its copies begin."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.exact.additive import AdditiveCosts
from tapestry.optimizer.exact.memory_bounds import live_problem, memory_bound
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, MESHES, product_of, random_genes


@pytest.mark.parametrize(("name", "mesh"), one_in(4, product(GRAPHS, MESHES)))
def test_what_counts_at_a_sample_lives_there(name: str, mesh: str, rng: np.random.Generator) -> None:
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    costs, classes = AdditiveCosts(space.space), space.space.classes
    problems = [live_problem(costs, sample) for sample in range(2 * space.space.slot_count)]
    for _ in range(30):
        genes = random_genes(rng, space)
        space.evaluate(genes)
        labels = np.asarray(genes.strategies)[costs.gene_of_node]
        changes = np.stack([space.state.before[:-1], space.state.during[:-1]], axis=1)
        live = np.cumsum(changes.reshape(-1, len(classes)), axis=0) @ classes / classes.sum()
        counted = [problem.energy(labels) for problem in problems]
        assert (np.array(counted) <= live * (1 + 1e-12)).all()


@pytest.mark.parametrize(("name", "mesh"), one_in(4, product(GRAPHS, MESHES)))
def test_no_plan_needs_less_memory_than_the_bound(name: str, mesh: str, rng: np.random.Generator) -> None:
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    bound = memory_bound(
        AdditiveCosts(space.space), space.state, np.zeros(len(space.space.strategy_count), int)
    )
    assert bound > 0
    for _ in range(200):
        assert space.evaluate(random_genes(rng, space))[PEAK] >= bound


@pytest.mark.parametrize("mesh", ["cpu-node", "dgx-h100"])
def test_the_bound_of_one_product_is_near_the_least_peak_of_all_plans(mesh: str) -> None:
    space = PlanSpace(product_of(256, 256, 256), load_mesh(mesh))
    counts, nothing = space.space.strategy_count, np.zeros(space.edge_count, np.int64)
    total = int(np.prod(counts))
    tried = np.stack(
        np.unravel_index(np.linspace(0, total - 1, min(total, 10_000), dtype=np.int64), counts), axis=1
    )
    least = min(int(space.evaluate(Genes(plan, nothing, nothing))[PEAK]) for plan in tried)
    assert 0.6 * least < memory_bound(AdditiveCosts(space.space), space.state, tried[0]) <= least
