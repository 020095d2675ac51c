"""Tests of the additive costs of plans against the full evaluation of the same plans."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import ENERGY, FLOPS, TRAFFIC
from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, MESHES, random_genes

PER_COPY = {"traffic": TRAFFIC, "energy": ENERGY}


def labels_of(costs: AdditiveCosts, strategies: np.ndarray) -> np.ndarray:
    return np.asarray(strategies[costs.gene_of_node])


@pytest.mark.parametrize(("name", "mesh"), one_in(4, product(GRAPHS, MESHES)))
def test_sums_enclose_those_of_whole_plans(name: str, mesh: str, rng: np.random.Generator) -> None:
    """Check sums over edges: all copies apart cost at least as much as a plan that shares them, shares at most."""
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    costs = AdditiveCosts(space.space)
    nothing = np.zeros(space.edge_count, np.int64)
    for _ in range(20):
        strategies = random_genes(rng, space).strategies
        raw, labels = space.evaluate(Genes(strategies, nothing, nothing)), labels_of(costs, strategies)
        assert (costs.genes(labels) == strategies).all()
        for kind, column in PER_COPY.items():
            weights = Weights(**{kind: 1.0})
            apart = costs.problem(weights).energy(labels)
            assert apart >= raw[column] * (1 - 1e-12)
            if (costs.readers == 1).all():
                assert apart == pytest.approx(raw[column])
        assert costs.problem(Weights(flops=1.0)).energy(labels) == pytest.approx(raw[FLOPS])


@pytest.mark.parametrize(("name", "mesh"), one_in(4, product(GRAPHS, MESHES)))
def test_shares_of_the_least_copies_add_up_to_no_more_than_what_is_copied(
    name: str, mesh: str, rng: np.random.Generator
) -> None:
    """Check against the copies that the kernel makes: their ticks, where shares of one tensor's copies sum to one."""
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    costs = AdditiveCosts(space.space)
    for _ in range(20):
        genes = random_genes(rng, space)
        space.evaluate(genes)
        copied = 0
        for k in range(space.space.slot_count):
            e = int(space.state.first_due[k])
            while e >= 0:
                copied += int(space.state.copy_ticks[e])
                e = int(space.state.next_due[e])
        problem = costs.problem(Weights(least_copy_ticks=1.0), shared=True)
        assert problem.energy(labels_of(costs, genes.strategies)) <= copied * (1 + 1e-12)


def test_carried_state_is_one_node() -> None:
    space = PlanSpace(GRAPHS["observed"](), load_mesh("dgx-h100"))
    costs = AdditiveCosts(space.space)
    sinks, sources = space.state_genes.T
    assert len(sinks) > 0
    assert (costs.nodes[sinks] == costs.nodes[sources]).all()
    assert len(costs.gene_of_node) == space.gene_count - len(sinks)


def test_sources_come_just_before_their_first_reader() -> None:
    space = PlanSpace(GRAPHS["perceptron"](), load_mesh("dgx-h100"))
    costs = AdditiveCosts(space.space)
    for gene in range(space.space.slot_count, space.gene_count):
        tensors = range(int(space.space.made_start[gene]), int(space.space.made_start[gene + 1]))
        made = [int(space.space.made_tensor[r]) for r in tensors]
        readers = [
            int(s) for t in made for s in space.space.edge_slot[np.flatnonzero(space.space.edge_tensor == t)]
        ]
        between = costs.nodes[: space.space.slot_count]
        assert costs.nodes[gene] < min(between[s] for s in readers)
        assert all(between[s] < costs.nodes[gene] for s in range(min(readers)))
