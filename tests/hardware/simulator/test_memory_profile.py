"""Tests of memory over time: its peak is that of the plan's costs, and what lives at every sample adds up to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.simulator.execution import COMPUTE
from tapestry.hardware.simulator.memory_profile import MemoryProfile, profile_memory
from tapestry.rewrites import Move, apply_move
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.cases import first
from tests.costmodel.offloaded import offloaded_training
from tests.costmodel.programs import GRAPHS, random_genes
from tests.costmodel.test_offload import with_host
from tests.teg.sharding.looped import in_rounds, training
from tests.teg.sharding.pipelined import drawn


def check(program: ExplicitGraph, mesh: Mesh, peak_bytes: int) -> MemoryProfile:
    profile = profile_memory(program, mesh)
    run = profile.execution
    curves = np.stack([profile.live_bytes(d) for d in range(program.device_count)])
    assert curves.max() == peak_bytes
    assert curves.max(axis=1).tolist() == run.peak_memory_bytes.tolist()
    assert curves[:, 0].tolist() == run.source_memory_bytes.tolist()
    assert (curves[:, 1:].T.reshape(-1, 2, program.device_count) == run.memory_bytes).all()
    assert (np.diff(profile.slot_ticks, axis=0) >= 0).all()
    assert (profile.slot_ticks <= profile.block_ticks).all()
    assert (profile.block_ticks[:-1] <= profile.slot_ticks[1:]).all()
    for devices in profile.device_classes():
        assert (curves[list(devices)] == curves[devices[0]]).all()
    return profile


def test_copies_that_are_waited_for_run_between_the_begin_of_a_slot_and_its_block() -> None:
    mesh = load_mesh("dgx-h100")
    space = PlanSpace(training(24), mesh)
    for profile in random_programs(space, mesh, 5):
        blocks = [span for span in profile.execution.spans if span.stream == COMPUTE]
        assert [span.start_ticks.tolist() for span in blocks] == profile.block_ticks.tolist()
        assert (profile.slot_ticks < profile.block_ticks).any()


def random_programs(space: PlanSpace, mesh: Mesh, seed: int, count: int = 4) -> list[MemoryProfile]:
    rng, found = np.random.default_rng(seed), []
    for genes in (random_genes(rng, space) for _ in range(count)):
        program = expand(space.graph, space.placements(genes), space.mesh_shape)
        found.append(check(program, mesh, int(space.evaluate(genes)[PEAK])))
    return found


@pytest.mark.parametrize("name", first(2, list(GRAPHS)))
def test_the_peak_is_that_of_the_cost_model(name: str) -> None:
    mesh = load_mesh("2x-dgx-h100")
    random_programs(PlanSpace(GRAPHS[name](), mesh), mesh, 1)


@pytest.mark.parametrize("count", [2, 3])
def test_the_peak_of_rounds_is_that_of_the_cost_model(count: int) -> None:
    mesh = load_mesh("dgx-h100")
    random_programs(PlanSpace(training(24, state=True), mesh, rounds=in_rounds(count)), mesh, 2)


@pytest.mark.parametrize("seed", range(6))
def test_the_peak_of_stages_is_that_of_the_cost_model(seed: int) -> None:
    case = drawn(seed, state=seed % 2 == 1)
    program = expand(case.graph, case.placements, MeshShape(case.mesh.axis_sizes))
    cost = reference_cost(case.graph, case.placements, case.mesh)
    check(program, case.mesh.part(program.axes), cost.peak_memory_bytes)


def test_the_peak_with_a_host_is_that_of_the_cost_model() -> None:
    mesh = with_host(load_mesh("dgx-h100"))
    random_programs(PlanSpace(offloaded_training(96, state=True), mesh), mesh, 3)


def test_the_peak_of_what_is_computed_again_is_that_of_the_cost_model() -> None:
    graph: Graph = apply_move(training(24), Move("recompute", "active", "after 1"))
    assert len(graph.blocks) > len(training(24).blocks)
    mesh = load_mesh("dgx-h100")
    random_programs(PlanSpace(graph, mesh), mesh, 4)


def test_a_plan_beyond_the_capacity_is_counted_too() -> None:
    mesh = load_mesh("dgx-h100")
    small = replace(mesh, device=replace(mesh.device, memory_bytes=64))
    space = PlanSpace(GRAPHS["attention"](), small)
    genes = space.abstract_genes()
    check(
        expand(space.graph, space.placements(genes), space.mesh_shape),
        small,
        int(space.evaluate(genes)[PEAK]),
    )


def test_devices_with_other_memories_are_another_class() -> None:
    mesh = load_mesh("dgx-h200+dgx-h100")
    graph, placements = training(24), Placements()
    program = expand(graph, placements, MeshShape(mesh.axis_sizes))
    profile = check(program, mesh, reference_cost(graph, placements, mesh).peak_memory_bytes)
    sizes = [{int(profile.capacity_bytes[d]) for d in devices} for devices in profile.device_classes()]
    assert sizes == [{node.device.memory_bytes} for node in mesh.nodes]


def test_every_allocation_has_its_kind_and_its_time() -> None:
    mesh = load_mesh("dgx-h100")
    (profile,) = random_programs(PlanSpace(training(24, state=True), mesh), mesh, 5, count=1)
    kinds = {each.kind for each in profile.allocations}
    assert kinds == {"source", "made", "copy", "staging"}
    for each in profile.allocations:
        assert 0 <= each.first < each.end <= profile.sample_count
        assert (each.kind == "source") == (each.first == 0)
        if each.kind == "made":
            assert each.first % 2 == 0
        if each.kind in ("copy", "staging"):
            assert each.first % 2 == 1
