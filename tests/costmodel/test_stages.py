"""Tests of costs of plans with stages: the plain model counts what the simulator counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import COLUMNS, TIME
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.resources import LARGEST
from tapestry.costmodel.tally import CostTally
from tapestry.costmodel.time_estimates import estimate_time
from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import Execution, simulate
from tapestry.hardware.timing import TICKS_PER_S, energy_pj
from tapestry.optimizer.exact.additive import AdditiveCosts
from tapestry.optimizer.exact.bounds import cost_bounds
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.stages import SCHEDULES, Pipeline, StageLayout, Stages
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import rotating
from tests.costmodel.programs import random_genes
from tests.teg.sharding.looped import in_rounds, training, training_by_terms
from tests.teg.sharding.pipelined import chain, drawn, in_parts, one_layer_each

EIGHT = MeshShape.of(gpu=8)
UNIT = 64 * 64 * 4  # bytes of what a layer makes of 64 rows


def both(graph: Graph, placements: Placements, mesh: Mesh) -> tuple[CostTally, Execution]:
    """Return the cost of a plan and its dry run, which agree but for the time."""
    program = expand(graph, placements, MeshShape(mesh.axis_sizes))
    run = simulate(program, mesh.part(program.axes), dry=True, capacity_check=False)
    tally = reference_cost(graph, placements, mesh)
    assert tally.traffic_bytes == run.traffic_bytes
    assert tally.peak_per_device == run.peak_memory_bytes.tolist()
    assert tally.peak_memory_bytes == run.peak_memory_bytes.max()
    assert tally.total_memory_bytes == run.peak_memory_bytes.sum()
    assert tally.compute_flops == run.flops.sum()
    assert tally.peak_compute_flops == run.flops.max()
    return tally, run


@pytest.mark.parametrize("seed", [*range(5), *rotating(5, range(5, 60))])
def test_costs_of_random_plans_are_those_of_the_simulator(seed: int) -> None:
    case = drawn(seed, state=seed % 2 == 1)
    tally, run = both(case.graph, case.placements, case.mesh)
    assert tally.time_ticks == pytest.approx(run.makespan_ticks, rel=0.01)


WAYS = [
    ("dgx-h100", "gpu:2", 4, "gpipe", 4, 1),
    ("2x-dgx-h100", "node:1,gpu:4", 4, "1f1b", 8, 2),
    ("2x-dgx-h100", "node:2,gpu:2", 3, "1f1b", 3, 2),
    ("dgx-h100", "gpu:2", 2, "interleaved", 4, 1),
    ("2x-dgx-h100", "node:1,gpu:4", 4, "zb-h1", 8, 2),
    ("t3000", "y:1,x:4", 2, "gpipe", 1, 1),
    ("tpu-v4-2x2x2", "x:1,y:2,z:2", 2, "1f1b", 2, 2),
    ("dgx-h100+dgx-a100", "node:1,gpu:4", 4, "1f1b", 8, 2),
    ("dgx-h100+dgx-a100", "node:2,gpu:2", 3, "gpipe", 4, 1),  # both kinds of devices in each stage
    ("dgx-a100+2x-dgx-h100", "node:1,gpu:8", 3, "zb-h1", 6, 1),
]
BY_HAND = (
    "dgx-h100",
    "gpu:2",
    2,
    "f0 f1 f2 w0 f3 w1 w2 w3 b0 b1 b2 b3 | f0 f2 f1 f3 w2 w1 w3 w0",
    4,
    1,
)


def with_queues(mesh: Mesh, count: int) -> Mesh:
    """Return a mesh whose devices all have so many communication queues."""
    nodes = tuple(with_queues(node, count) for node in mesh.nodes)
    return replace(mesh, device=replace(mesh.device, communication_queues=count), nodes=nodes)


# The parts of `training`: forward, the turn, backward, and the updates where the layers are.
FIRST = ("x", "w1", "hidden", "active", "back", "gated", "step.w1", "new.w1", "updated.w1")


def staged_space(
    mesh: Mesh, way: tuple[str, str, int, str, int, int], rng: np.random.Generator, *, terms: bool = False
) -> PlanSpace:
    """Compile a training step: its first layer in the first part and the rest in the last, or in no order at all."""
    _, devices, count, schedule, rounds, _ = way
    graph = training_by_terms(96, "float32") if terms else training(96, "float32")
    shape = MeshShape(mesh.axis_sizes)
    stages = Stages(count, schedule)
    if schedule == "gpipe":
        parts = {block.site: int(rng.integers(stages.part_count)) for block in graph.blocks}
    else:
        parts = {
            block.site: 0 if block.site.partition("~")[0] in FIRST else stages.part_count - 1
            for block in graph.blocks
        }
    layout = StageLayout(shape, shape.part(devices), count)
    return PlanSpace(
        graph,
        mesh,
        rounds=in_rounds(rounds) if rounds > 1 else None,
        pipeline=Pipeline(stages, layout, parts),
    )


@pytest.mark.parametrize("terms", [False, True])
@pytest.mark.parametrize("way", [*WAYS, BY_HAND], ids=lambda way: f"{way[0]}-{way[3]}-{way[4]}")
def test_compiled_costs_are_those_of_the_plain_model(
    way: tuple[str, str, int, str, int, int], terms: bool
) -> None:
    rng, mesh = np.random.default_rng(way[4]), load_mesh(way[0])
    mesh = with_queues(mesh, way[5])
    space, some = staged_space(mesh, way, rng, terms=terms), 0
    plans = (space.abstract_genes(), *(random_genes(rng, space) for _ in range(6)))
    for genes in plans:
        placements, fast = replace(space.placements(genes), devices=way[1]), space.evaluate(genes)
        tally, _ = both(space.graph, placements, mesh)
        assert fast.tolist() == tally.vector().tolist(), placements
        assert estimate_time(space, genes).seconds == pytest.approx(fast[TIME] / TICKS_PER_S, rel=1e-12)
        assert space.genes_of(placements).strategies.tolist() == space.with_state(genes.strategies).tolist()
        some += tally.traffic_bytes > 0
    assert some == len(plans)


def test_each_stage_has_the_times_of_its_own_devices() -> None:
    way = ("", "node:1,gpu:8", 2, "1f1b", 4, 1)
    meshes = [load_mesh(name) for name in ("dgx-h100+dgx-a100", "2x-dgx-h100", "2x-dgx-a100")]
    spaces = [staged_space(mesh, way, np.random.default_rng(0)) for mesh in meshes]
    for space in spaces:
        space.evaluate(space.abstract_genes())
    mixed, fast, slow = (space.state.slot_ticks for space in spaces)
    stage = spaces[0].space.gene_stage[: len(mixed)]
    assert mixed.tolist() == np.where(stage == 0, fast, slow).tolist()
    assert (fast < slow)[stage == 1].any() and (stage == 0).any()


@pytest.mark.parametrize("way", WAYS[:2], ids=lambda way: way[3])
def test_no_plan_with_stages_is_below_the_bounds(way: tuple[str, str, int, str, int, int]) -> None:
    rng = np.random.default_rng(1)
    space = staged_space(load_mesh(way[0]), way, rng)
    plans = [random_genes(rng, space) for _ in range(100)]
    found = np.array([space.evaluate(genes) for genes in plans])
    bounds = cost_bounds(AdditiveCosts(space.space), space.state, found[0], plans[0].strategies)
    assert (bounds <= found.min(axis=0)).all() and bounds[TIME] > 0


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("mesh", "devices"),
    [
        ("dgx-h100", "gpu:1"),
        ("2x-dgx-h100", "node:1,gpu:4"),  # over both axes: two stages on each node
        ("2x-dgx-h100", "node:2,gpu:2"),
        ("t3000", "y:1,x:2"),
        ("tpu-v4-2x2x2", "x:1,y:1,z:2"),
    ],
)
def test_time_without_contention_is_that_of_the_simulator(mesh: str, devices: str, schedule: str) -> None:
    graph = chain(8 if schedule == "interleaved" else 4, 64 * 4)
    tally, run = both(graph, one_layer_each(graph, Stages(4, schedule), 4, devices), load_mesh(mesh))
    assert tally.time_ticks == run.makespan_ticks
    assert tally.traffic_bytes > 0


def test_an_unequal_cut_takes_longer() -> None:
    graph, mesh = chain(6, 64 * 8), load_mesh("dgx-h100")
    cuts = ([0, 0, 1, 1, 2, 3], [0, 0, 0, 1, 2, 3], [0, 0, 0, 0, 0, 1])
    times = []
    for cut in cuts:
        tally, run = both(graph, in_parts(graph, dict(enumerate(cut)), Stages(4), 8), mesh)
        assert tally.time_ticks == run.makespan_ticks
        assert run.compute_ticks.tolist() == [64 * 8 * 3 * 10**6 * cut.count(k) for k in range(4)]
        times.append(tally.time_ticks)
    assert times == sorted(times)
    assert times[0] < times[1] < times[2]


def test_a_weight_of_two_stages_is_sent_once() -> None:
    """Check a layer that is applied twice, in two rounds: its weight, and in each round what it makes."""
    b = GraphBuilder("tied")
    held, w = b.source("x", (8, 4), "float32"), b.source("w", (4, 4), "float32", "parameter")
    for k in range(2):
        labels = (("b", "i"), ("i", "j"))
        (held,) = b.apply("contract", [held, w], site=f"f{k}", labels=labels, output=("b", "j"))
    b.sink(held, site="out")
    graph = b.build()
    for rounds in (1, 2):
        placements = in_parts(graph, {0: 0, 1: 1}, Stages(2), rounds)
        tally, run = both(graph, placements, load_mesh("dgx-h100"))
        weight, forth, back = 4 * 4 * 4, 8 * 4 * 4, 8 * 4 * 4  # bytes; what is observed is in the first part
        assert run.received_bytes.tolist() == [back, weight + forth]
        assert tally.time_ticks == run.makespan_ticks


def test_what_is_more_than_can_be_counted_is_counted_as_the_most() -> None:
    """Check products of 1.2e19 flops together: a sum of 64 bits would begin again below zero."""
    b, size, count = GraphBuilder("large"), 1 << 20, 20
    x, w = b.source("x", (size, size), "bfloat16"), b.source("w", (size, size // 4), "bfloat16")
    for k in range(count):
        b.apply("contract", [x, w], site=f"y{k}", labels=(("i", "j"), ("j", "k")), output=("i", "k"))
        b.sink(f"y{k}", site=f"out{k}")
    graph, mesh = b.build(), load_mesh("dgx-h100")
    split = Placement(Strategy((Split(tuple(axis.name for axis in EIGHT.sub_axes)), WHOLE, WHOLE)))
    placements = Placements({f"y{k}": split for k in range(count)})
    space = PlanSpace(graph, mesh)
    found = dict(zip(COLUMNS, space.evaluate(space.genes_of(placements)).tolist(), strict=False))
    plain = reference_cost(graph, placements, mesh)
    assert plain.compute_flops == count * size**3 // 2 > 2 * LARGEST and plain.energy_pj > LARGEST
    assert (
        found["compute_flops"] == LARGEST and plain.compute_waste_flops == found["compute_waste_flops"] == 0
    )
    assert found["energy_pj"] == pytest.approx(LARGEST, rel=1e-6)
    assert plain.vector()[COLUMNS.index("energy_pj")] == LARGEST
    assert found["time_ticks"] == plain.time_ticks
    assert found["peak_compute_flops"] == plain.peak_compute_flops == plain.compute_flops // 8


def test_stages_add_the_energy_of_their_copies() -> None:
    graph, mesh = chain(4, 64 * 4), load_mesh("dgx-h100")
    alone, _ = both(graph, in_parts(graph, dict.fromkeys(range(4), 0), Stages(1), 4), mesh)
    tally, _ = both(graph, one_layer_each(graph, Stages(4), 4), mesh)
    copies = 2 * 3 * 4
    assert (alone.traffic_bytes, tally.traffic_bytes) == (0, copies * UNIT)
    sent_pj = int(energy_pj(mesh.device, "float32", 0, 0, UNIT, kind="vector"))
    assert tally.energy_pj - alone.energy_pj == copies * sent_pj > 0
    assert tally.compute_flops == alone.compute_flops


@pytest.mark.parametrize("rounds", [1, 4])
def test_one_stage_costs_what_a_plan_without_stages_does(rounds: int) -> None:
    graph, mesh = chain(3, 64 * 4), load_mesh("2x-dgx-h100")
    placements = in_parts(graph, dict.fromkeys(range(3), 0), Stages(1), rounds, "node:1,gpu:4")
    staged, _ = both(graph, placements, mesh)
    plain, _ = both(graph, replace(placements, stages=None), mesh)
    assert staged == plain
