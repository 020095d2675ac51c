"""Tests that a state moved from plan to plan costs each one as a new state would, bit for bit."""

from itertools import product

import numpy as np
import pytest

from tapestry.costmodel.kernel import evaluate
from tapestry.costmodel.kernel_arrays import new_state
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import load_mesh
from tapestry.optimizer.placement.rng import new_rng
from tapestry.optimizer.placement.search_space import search_space
from tapestry.optimizer.placement.variation import RULES, hash_plan, vary
from tests.cases import one_in
from tests.costmodel.programs import GRAPHS, random_genes


def fresh_cost(space: PlanSpace, *plan: np.ndarray) -> np.ndarray:
    cost = np.zeros(space.cost_count, np.int64)
    evaluate(space.space, new_state(space.space), *plan, cost)
    return cost


@pytest.mark.parametrize(("name", "mesh"), one_in(3, product(GRAPHS, ["dgx-h100", "tpu-v5e-4x4"])))
def test_a_walk_of_every_rule(name: str, mesh: str, rng: np.random.Generator) -> None:
    space = PlanSpace(GRAPHS[name](), load_mesh(mesh))
    search, random_state = search_space(space), new_rng(rng)
    plan = space.compiled_genes(random_genes(rng, space))
    digest = np.array([hash_plan(*plan)], np.uint64)
    cost = np.zeros(space.cost_count, np.int64)
    seen = set()

    for step in range(180 * len(RULES)):
        vary(step % len(RULES), random_state, space.space, search, *plan, digest)
        evaluate(space.space, space.state, *plan, cost)

        assert cost.tolist() == fresh_cost(space, *plan).tolist(), f"step {step}, {RULES[step % len(RULES)]}"
        seen.add(tuple(cost))

    assert len(seen) > 100, "the walk moves"


def test_jumps_between_far_plans(rng: np.random.Generator) -> None:
    """Check that far jumps refill and near ones advance; both in any order, and back to a plan seen before."""
    space = PlanSpace(GRAPHS["attention"](), load_mesh("2x-dgx-h100"))
    plans = [random_genes(rng, space) for _ in range(6)]
    costs = [fresh_cost(space, *space.compiled_genes(p)).tolist() for p in plans]
    assert len({tuple(c) for c in costs}) == 6

    for k in rng.integers(0, 6, 300):
        assert space.evaluate(plans[k]).tolist() == costs[k]


def test_one_edge_at_a_time(rng: np.random.Generator) -> None:
    """Check changes of prefetch and regather alone: copies leave and join the queues of their slots."""
    space = PlanSpace(GRAPHS["attention"](), load_mesh("dgx-h100"))
    plan = random_genes(rng, space)
    seen = set()

    for _ in range(1500):
        values = (plan.prefetch, plan.regather)[int(rng.integers(2))]
        values[int(rng.integers(space.edge_count))] = rng.integers(0, 5 if values is plan.prefetch else 2)
        found = space.evaluate(plan).tolist()

        assert found == fresh_cost(space, *space.compiled_genes(plan)).tolist()
        seen.add(tuple(found))

    assert len(seen) > 20


def test_genes_in_the_archives_narrow_types_cost_the_same(rng: np.random.Generator) -> None:
    space = PlanSpace(GRAPHS["joints"](), load_mesh("dgx-h100"))
    narrow = np.zeros(space.cost_count, np.int64)
    for _ in range(20):
        plan = random_genes(rng, space)
        types = (np.int16, np.int8, np.int8)
        rows = zip((plan.strategies, plan.prefetch, plan.regather), types, strict=True)
        evaluate(space.space, new_state(space.space), *(a.astype(t) for a, t in rows), narrow)

        assert narrow.tolist() == space.evaluate(plan).tolist()
