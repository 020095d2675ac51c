"""Tests that the fast path equals the reference cost model: every integer cost of every plan, on every mesh."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.cases import examples, first, one_in
from tests.costmodel.programs import GRAPHS, MESHES, random_genes
from tests.hardware.simulator.programs import mesh_of, random_program
from tests.teg.sharding import programs as float_programs

OTHER_SHAPES = (
    MeshShape.of(gpu=1),
    MeshShape.of(gpu=6),
    MeshShape.of(node=3, gpu=2),
    MeshShape.of(node=2, gpu=6),
    MeshShape.of(pod=2, node=2, gpu=2),
)


def assert_equal_to_run(
    space: PlanSpace, placements: Placements, fast: np.ndarray, dtype: str | None
) -> None:
    """Check a prediction against the simulator's counts: bytes exactly, time up to the shares of slow transfers."""
    program = expand(space.graph, placements, space.mesh_shape)
    run = simulate(program, space.mesh, dry=True, capacity_check=False, compute_dtype=dtype)
    assert [fast[TRAFFIC], fast[PEAK], fast[TOTAL]] == [
        run.traffic_bytes,
        run.peak_memory_bytes.max(),
        run.peak_memory_bytes.sum(),
    ]
    assert fast[TIME] == pytest.approx(run.makespan_ticks, rel=0.01)


def assert_equal_costs(graph: Graph, mesh: Mesh, seed: int, plans: int, dtype: str | None = None) -> None:
    rng = np.random.default_rng(seed)
    space = PlanSpace(graph, mesh, compute_dtype=dtype)
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(plans))):
        placements = space.placements(genes)

        fast = space.evaluate(genes)

        assert fast.tolist() == reference_cost(graph, placements, mesh, dtype).vector().tolist(), placements
        assert_equal_to_run(space, placements, fast, dtype)


@pytest.mark.parametrize("mesh", first(1, MESHES))
@pytest.mark.parametrize("name", GRAPHS)
def test_hand_made_graphs(name: str, mesh: str) -> None:
    assert_equal_costs(GRAPHS[name](), load_mesh(mesh), seed=1, plans=4)


@pytest.mark.parametrize(
    "mesh_shape", one_in(2, OTHER_SHAPES), ids=lambda m: "x".join(str(n) for _, n in m.axes)
)
def test_other_shapes(mesh_shape: MeshShape) -> None:
    for name in ("convolutions", "attention"):
        assert_equal_costs(GRAPHS[name](), mesh_of(mesh_shape), seed=2, plans=4)


def test_more_queues_are_never_slower() -> None:
    """Check one to three queues on three axes: equal to the reference and the simulator, and faster on some plan."""
    graph, rng = GRAPHS["attention"](), np.random.default_rng(5)
    mesh = mesh_of(MeshShape.of(pod=2, node=2, gpu=2))
    devices = (replace(mesh.device, communication_queues=queues) for queues in (1, 2, 3))
    spaces = [PlanSpace(graph, replace(mesh, device=device)) for device in devices]
    found = []
    for genes in (random_genes(rng, spaces[0]) for _ in range(3)):
        placements, times = spaces[0].placements(genes), []
        for space in spaces:
            fast = space.evaluate(genes)
            assert fast.tolist() == reference_cost(graph, placements, space.mesh).vector().tolist()
            assert_equal_to_run(space, placements, fast, None)
            times.append(int(fast[TIME]))
        assert times == sorted(times, reverse=True)
        found.append(times)
    assert any(times[0] > times[-1] for times in found)


@settings(max_examples=examples(8))
@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
def test_random_graphs(seed: int, mesh: str) -> None:
    rng = np.random.default_rng(seed)
    programs = (random_program, partial(random_program, state=True), float_programs.random_program)
    assert_equal_costs(programs[int(rng.integers(3))](rng), load_mesh(mesh), seed, plans=2, dtype="fp32")


@pytest.mark.slow
@settings(max_examples=examples(30))
@given(st.integers(0, 2**32 - 1), st.sampled_from(MESHES))
def test_many_random_graphs(seed: int, mesh: str) -> None:
    graph = random_program(np.random.default_rng(seed), steps=12, state=seed % 2 == 1)
    assert_equal_costs(graph, load_mesh(mesh), seed, plans=2, dtype="fp32")


def test_a_plan_that_leaves_devices_idle_is_costed_on_those_that_work() -> None:
    graph, mesh = GRAPHS["attention"](), load_mesh("dgx-h100")
    part = reference_cost(graph, Placements(devices="gpu:2"), mesh)
    assert len(part.peak_per_device) == 2
    assert part.compute_flops == 2 * reference_cost(graph, Placements(devices="gpu:1"), mesh).compute_flops
