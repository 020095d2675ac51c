"""Tests of costs of plans in rounds: compiled loops equal the reference, which unrolls them, and the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.time_estimates import estimate_time
from tapestry.costmodel.unsharded import live_bytes
from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import simulate
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer.exact.additive import AdditiveCosts
from tapestry.optimizer.exact.bounds import cost_bounds, time_bound
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tests.cases import first, rotating
from tests.costmodel.programs import random_genes
from tests.teg.sharding.looped import in_rounds, training, training_by_parts

CASES = [
    ("dgx-h100", 2),
    ("2x-dgx-h100", 4),
    ("t3000", 3),
    ("tpu-v4-2x2x2", 8),
    ("dgx-h100", 24),
]


COMBINATIONS = [
    (mesh, count, order, queues) for mesh, count in CASES for order in SCHEDULE_ORDERS for queues in (1, 2)
]


def with_queues(mesh: Mesh, queues: int) -> Mesh:
    return replace(mesh, device=replace(mesh.device, communication_queues=queues))


@pytest.mark.parametrize(
    ("mesh", "count", "order", "queues"), [COMBINATIONS[0], *rotating(11, COMBINATIONS[1:])]
)
def test_compiled_costs_are_those_of_the_reference_and_the_simulator(
    mesh: str, count: int, order: str, queues: int
) -> None:
    check_three_accounts(training(96, "float32"), with_queues(load_mesh(mesh), queues), count, order)


@pytest.mark.parametrize(("parts", "count"), [(4, 4), (4, 2), (8, 4)])
def test_gradients_made_in_parts_cost_alike_in_all_accounts(parts: int, count: int) -> None:
    check_three_accounts(training_by_parts(parts, 96, "float32"), load_mesh("dgx-h100"), count, "program")


def check_three_accounts(graph: Graph, several: Mesh, count: int, order: str) -> None:
    """Compare the costs of random plans in rounds by the compiled loops, the reference and the simulator."""
    rng, some = np.random.default_rng(count), 0
    space = PlanSpace(graph, several, rounds=in_rounds(count), schedule_order=order)
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(12))):
        placements, fast = space.placements(genes), space.evaluate(genes)
        assert placements.rounds == in_rounds(count)
        assert fast.tolist() == reference_cost(graph, placements, several).vector().tolist(), placements
        run = simulate(expand(graph, placements, space.mesh_shape), several, dry=True, capacity_check=False)
        counted = [run.traffic_bytes, run.peak_memory_bytes.max(), run.peak_memory_bytes.sum()]
        assert [fast[TRAFFIC], fast[PEAK], fast[TOTAL]] == counted
        assert fast[TIME] == pytest.approx(run.makespan_ticks, rel=0.01)
        assert estimate_time(space, genes).seconds == pytest.approx(fast[TIME] / TICKS_PER_S, rel=1e-12)
        some += fast[TRAFFIC] > 0
    assert some > 3


@pytest.mark.parametrize(("mesh", "count"), first(2, CASES))
def test_no_plan_in_rounds_is_below_the_bounds(mesh: str, count: int) -> None:
    rng, graph = np.random.default_rng(count), training(96, "float32")
    space = PlanSpace(graph, load_mesh(mesh), rounds=in_rounds(count))
    costs = AdditiveCosts(space.space)
    plans = [random_genes(rng, space) for _ in range(200)]
    found = np.array([space.evaluate(genes) for genes in plans])
    least, leanest = found[:, TIME].min(), plans[int(found[:, PEAK].argmin())].strategies
    assert 0 < time_bound(costs, int(least)) <= least
    bounds = cost_bounds(costs, space.state, found[found[:, TIME].argmin()], leanest)
    assert (bounds <= found.min(axis=0)).all() and (bounds[[TIME, PEAK]] > 0).all()


def test_more_rounds_take_longer_and_hold_less() -> None:
    """Compare a plan of whole blocks in ever more rounds: launches and small products cost, slices are smaller."""
    graph, mesh = training(1 << 16, "float32"), load_mesh("dgx-h100")
    spaces = [PlanSpace(graph, mesh)] + [PlanSpace(graph, mesh, rounds=in_rounds(n)) for n in (2, 8, 64)]
    costs = [space.evaluate(space.abstract_genes()) for space in spaces]
    assert [c[TIME] for c in costs] == sorted(c[TIME] for c in costs)
    assert [c[PEAK] for c in costs] == sorted((c[PEAK] for c in costs), reverse=True)
    assert costs[1][TIME] > costs[0][TIME]


def test_rounds_are_not_free() -> None:
    """Check that a copy that a loop makes again counts in each round, and one that it keeps counts once."""
    graph, mesh = training(96, "float32"), load_mesh("dgx-h100")
    rng = np.random.default_rng(3)
    space, base = PlanSpace(graph, mesh, rounds=in_rounds(4)), PlanSpace(graph, mesh)
    inputs = [tensor for block in space.slots for tensor in block.inputs]
    edge = inputs.index("w1")
    again = 0
    for _ in range(50):
        genes = random_genes(rng, space)
        kept, cut = genes.regather.copy(), genes.regather.copy()
        kept[edge], cut[edge] = 0, 1
        once, anew = (space.evaluate(replace(genes, regather=value))[TRAFFIC] for value in (kept, cut))
        assert once <= anew
        again += once < anew
    assert again
    assert base.evaluate(base.abstract_genes())[TRAFFIC] == 0


def test_bytes_that_live_rank_rounds_as_peaks_of_one_device_do() -> None:
    """Compare the estimate, which frees and fills what crosses loops at once, with peaks: at most 25 % above them."""
    graph, mesh = training(96, "float32"), load_mesh("dgx-h100").part((("gpu", 1),))
    for order in SCHEDULE_ORDERS:
        for count in (2, 8, 48):
            space = PlanSpace(graph, mesh, rounds=in_rounds(count), schedule_order=order)
            peak = space.evaluate(space.abstract_genes())[PEAK]
            assert peak <= max(live_bytes(graph, order, in_rounds(count))) <= 1.25 * peak
