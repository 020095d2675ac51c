"""Tests of costs of plans in rounds: compiled loops equal the reference, which unrolls them, and the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import COLUMNS, PEAK, TIME, TOTAL, TRAFFIC
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
from tapestry.rewrites import Move, apply_move
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS, Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import first, rotating
from tests.costmodel.programs import random_genes
from tests.teg.sharding.looped import in_rounds, training, training_by_parts, training_by_terms

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


@pytest.mark.parametrize(("mesh", "count"), CASES)
def test_gradients_added_at_waypoints_cost_alike_in_all_accounts(mesh: str, count: int) -> None:
    check_three_accounts(training_by_terms(96, "float32"), load_mesh(mesh), count, "program")


def test_gradients_reduced_in_each_round_are_stored_in_parts() -> None:
    """Check data parallelism with gradients that are reduce-scattered in every round, or once after the last one."""
    size, features, devices, count = 512, 512, 8, 4
    mesh, batch = load_mesh("dgx-h100"), 64
    costs = {}
    for is_early in (False, True):
        graph = one_gradient(batch, size, features)
        if is_early:
            graph = apply_move(graph, Move("waypoint", "step"))
        split = Split(tuple(axis.name for axis in MeshShape(mesh.axis_sizes).sub_axes))
        by_rows = Placement(Strategy((split, WHOLE)))
        by_samples = Placement(Strategy((WHOLE, WHOLE, split)))
        blocks = {
            block.site: by_samples if block.operator == "contract" else by_rows for block in graph.blocks
        }
        placements = Placements(blocks, rounds=in_rounds(count))
        space = PlanSpace(graph, mesh, rounds=in_rounds(count))
        found = space.evaluate(space.genes_of(placements))
        assert found.tolist() == reference_cost(graph, placements, mesh).vector().tolist()
        costs[is_early] = dict(zip(COLUMNS, found.tolist(), strict=False))
    reduced = (devices - 1) * size * features * 4  # a reduce-scatter of the whole gradient
    assert costs[True]["traffic_bytes"] - costs[False]["traffic_bytes"] == (count - 1) * reduced
    # adding the terms is work: a flop for each element in every round
    assert costs[True]["compute_flops"] - costs[False]["compute_flops"] == count * size * features
    assert costs[True]["time_ticks"] > costs[False]["time_ticks"]


def one_gradient(batch: int, size: int, features: int) -> Graph:
    """Build one weight's gradient, and its update."""
    b = GraphBuilder("gradient")
    x, y = b.source("x", (batch, size), "float32"), b.source("y", (batch, features), "float32")
    w = b.source("w", (size, features), "float32", "parameter")
    (step,) = b.apply("contract", [x, y], site="step", labels=(("b", "i"), ("b", "j")), output=("i", "j"))
    after = ("sub", ("input", 0), ("input", 1))
    (new,) = b.apply(
        "cell", [w, step], site="new", expr=after, labels=(("i", "j"), ("i", "j")),
        dims=(("i", size), ("j", features)), dtype="float32",
    )  # fmt: skip
    b.sink(new, site="updated", carries="w")
    return b.build()


def check_three_accounts(graph: Graph, several: Mesh, count: int, order: str) -> None:
    """Compare the costs of random plans in rounds by the compiled loops, the reference and the simulator."""
    rng, some, known = np.random.default_rng(count), 0, {}
    space = PlanSpace(graph, several, rounds=in_rounds(count), schedule_order=order)
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(12))):
        placements, fast = space.placements(genes), space.evaluate(genes)
        assert placements.rounds == in_rounds(count)
        plain = reference_cost(graph, placements, several, counted=known)
        assert fast.tolist() == plain.vector().tolist(), placements
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
