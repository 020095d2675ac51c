"""Tests of seeds: legal plans, the abstract one first, and among them the patterns people would write."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import FLOPS_WASTE, PEAK_FLOPS, TRAFFIC
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.placement.search_space import search_space
from tapestry.optimizer.placement.seeds import genes_rows, seed_plans
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, layers


def costs_by_seed(space: PlanSpace) -> tuple[np.ndarray, np.ndarray]:
    seeds = seed_plans(space, search_space(space))
    nothing = np.zeros(space.edge_count, np.int64)
    return seeds, np.array([space.evaluate(Genes(s, nothing, nothing)) for s in seeds])


@pytest.mark.parametrize(
    ("name", "mesh"), one_in(5, product(GRAPHS, ["dgx-h100", "2x-dgx-h100", "tpu-v5e-4x4", "cpu-node"]))
)
def test_seeds_are_legal_and_different(name: str, mesh: str) -> None:
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    seeds = seed_plans(space, search_space(space))
    assert not seeds[0].any(), "the abstract plan is the first"
    assert len(seeds) >= 3
    assert len(np.unique(seeds, axis=0)) == len(seeds)
    assert (seeds >= 0).all()
    assert (seeds < space.space.strategy_count).all()


def test_one_device_has_one_seed() -> None:
    mesh = load_mesh("dgx-h100").part((("gpu", 1),))
    space = PlanSpace(layers(1), mesh)
    assert seed_plans(space, search_space(space)).tolist() == [[0] * space.gene_count]


def test_data_parallelism_is_among_the_seeds() -> None:
    space = PlanSpace(layers(2), load_mesh("dgx-h100"))
    seeds, costs = costs_by_seed(space)
    free = (costs[:, TRAFFIC] == 0) & (costs[:, FLOPS_WASTE] == 0)
    assert free.any(), "nothing moves and nothing is computed twice"
    strategies = {
        b.site: str(f.strategies[seeds[free][0][g]])
        for g, (b, f) in enumerate(zip(space.blocks, space.families, strict=True))
    }
    assert strategies["up1"] == "(gpu.0*gpu.1*gpu.2, -, -)"
    assert strategies["x"] == "(gpu.0*gpu.1*gpu.2, -)"
    assert strategies["u0"] == "(-, -)"


def test_tensor_parallelism_is_among_the_seeds() -> None:
    """Check for columns then rows: one reduction per layer and nothing else moves."""
    space = PlanSpace(layers(1), load_mesh("dgx-h100"))
    seeds, costs = costs_by_seed(space)
    products = [space.gene_of[site] for site in ("up0", "down0")]
    found = {
        tuple(str(space.families[g].strategies[seed[g]]) for g in products)
        for seed, cost in zip(seeds, costs, strict=True)
        if cost[FLOPS_WASTE] == 0
    }
    everywhere = "gpu.0*gpu.1*gpu.2"
    assert (f"(-, {everywhere}, -)", f"(-, -, {everywhere})") in found


def test_equal_layers_get_equal_seeds() -> None:
    space = PlanSpace(layers(4), load_mesh("2x-dgx-h100"))
    seeds, costs = costs_by_seed(space)
    inner = [[space.gene_of[f"{name}{k}"] for k in (1, 2)] for name in ("up", "act", "down")]
    for one, other in inner:
        assert (seeds[:, one] == seeds[:, other]).all()
    assert costs[:, PEAK_FLOPS].min() * 16 == costs[0, PEAK_FLOPS]


def test_a_limit_keeps_the_first_ones() -> None:
    space = PlanSpace(layers(1), load_mesh("2x-dgx-h100"))
    search = search_space(space)
    all_of_them, few = seed_plans(space, search), seed_plans(space, search, limit=8)
    assert 1 < len(few) < len(all_of_them)
    assert few.tolist() == all_of_them[: len(few)].tolist()
    genes, prefetch, regather = genes_rows(few, space.space)
    assert (genes.dtype, prefetch.dtype, regather.dtype) == (np.int16, np.int8, np.int8)
    assert not prefetch.any()
    assert not regather.any()
