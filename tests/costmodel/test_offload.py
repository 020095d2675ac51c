"""Tests of the convention "host" of `docs/sharding.md`: compiled costs are those of the reference and the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import ENERGY, PEAK, TIME, TOTAL, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.costmodel.reference import Counted, reference_cost
from tapestry.costmodel.time_estimates import estimate_time
from tapestry.hardware import load_mesh
from tapestry.hardware.device import MissingFigureError
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import simulate
from tapestry.hardware.timing import TICKS_PER_S, host_ticks
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.host import HOST
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements, whole_placement
from tapestry.teg.sharding.spec import volumes
from tapestry.teg.sharding.stages import Pipeline, StageLayout, Stages
from tests.costmodel.offloaded import offloaded, offloaded_training
from tests.costmodel.programs import random_genes
from tests.costmodel.test_stages import FIRST, WAYS
from tests.teg.sharding.looped import in_rounds, training


def with_host(mesh: Mesh, **figures: float) -> Mesh:
    """Return a mesh whose devices have a slow link to a large host, or to one of other figures."""
    host = {"host_bytes_per_s": 1e9, "host_memory_bytes": 10**12} | figures
    nodes = tuple(with_host(node, **host) for node in mesh.nodes)
    return replace(mesh, device=replace(mesh.device, **host), nodes=nodes)


CASES = [
    *(("dgx-h100", 1, state) for state in (False, True)),
    *(("2x-dgx-h100", 4, state) for state in (False, True)),
    *(("t3000", 3, True), ("tpu-v4-2x2x2", 8, True), ("tpu-v5e-4x4", 1, True)),
]


@pytest.mark.parametrize(("mesh", "rounds", "state"), CASES)
def test_compiled_costs_are_those_of_the_reference_and_the_simulator(
    mesh: str, rounds: int, state: bool
) -> None:
    rng, several = np.random.default_rng(rounds), with_host(load_mesh(mesh))
    graph = offloaded_training(96, state=state)
    space = PlanSpace(graph, several, rounds=in_rounds(rounds) if rounds > 1 else None)
    begun, known = 0, {}
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(20 if state else 12))):
        placements, fast = space.placements(genes), space.evaluate(genes)
        begun += any(placements.of(source).layout_of(0) == HOST for source in graph.sources)
        plain = reference_cost(graph, placements, several, counted=known)
        assert fast.tolist() == plain.vector().tolist(), placements
        program = expand(graph, placements, space.mesh_shape)
        run = simulate(program, several, dry=True, capacity_check=False)
        counted = [run.traffic_bytes, run.peak_memory_bytes.max(), run.peak_memory_bytes.sum()]
        assert [fast[TRAFFIC], fast[PEAK], fast[TOTAL]] == counted
        assert fast[TIME] == pytest.approx(run.makespan_ticks, rel=0.01)
        assert estimate_time(space, genes).seconds == pytest.approx(fast[TIME] / TICKS_PER_S, rel=1e-12)
    assert begun > 5 or not state
    assert fast[ENERGY] > 0 or space.mesh.device.missing_energy_figure is not None


@pytest.mark.parametrize("way", WAYS, ids=lambda way: f"{way[0]}-{way[3]}-{way[4]}")
def test_stages_have_hosts_of_their_own(way: tuple[str, str, int, str, int, int]) -> None:
    rng, mesh = np.random.default_rng(way[4]), with_host(load_mesh(way[0]))
    _, devices, count, schedule, rounds, _ = way
    graph, shape, stages = (
        offloaded_training(96, state=True),
        MeshShape(mesh.axis_sizes),
        Stages(count, schedule),
    )
    first = {*FIRST, "active~host"}
    parts = {block.site: 0 if block.site in first else stages.part_count - 1 for block in graph.blocks}
    layout = StageLayout(shape, shape.part(devices), count)
    space = PlanSpace(
        graph,
        mesh,
        rounds=in_rounds(rounds) if rounds > 1 else None,
        pipeline=Pipeline(stages, layout, parts),
    )
    known: Counted = {}
    for genes in (space.abstract_genes(), *(random_genes(rng, space) for _ in range(12))):
        placements, fast = replace(space.placements(genes), devices=devices), space.evaluate(genes)
        tally = reference_cost(graph, placements, mesh, counted=known)
        assert fast.tolist() == tally.vector().tolist(), placements
        program = expand(graph, placements, shape)
        run = simulate(program, mesh.part(program.axes), dry=True, capacity_check=False)
        assert tally.peak_per_device == run.peak_memory_bytes.tolist()
        assert fast[TRAFFIC] == run.traffic_bytes
        assert fast[TIME] == pytest.approx(run.makespan_ticks, rel=0.01)


def test_what_the_host_has_no_room_for_counts_as_memory_of_the_device() -> None:
    graph, rng = offloaded_training(96, state=True), np.random.default_rng(0)
    several, scarce = (with_host(load_mesh("dgx-h100"), host_memory_bytes=n) for n in (10**12, 1000))
    spaces = [PlanSpace(graph, mesh) for mesh in (several, scarce)]
    for genes in (spaces[0].abstract_genes(), *(random_genes(rng, spaces[0]) for _ in range(20))):
        wide, narrow = (space.evaluate(genes) for space in spaces)
        placements = spaces[0].placements(genes)
        assert narrow.tolist() == reference_cost(graph, placements, scarce).vector().tolist()
        program = expand(graph, placements, spaces[0].mesh_shape)
        keys = {*program.sources, *(key for slot in program.slots for key in slot.step.outputs)}
        held = [program.buffers[key] for key in keys if program.buffers[key].layout == HOST]
        sizes = [sum(4 * int(volumes(buffer.boxes)[d]) for buffer in held) for d in range(8)]
        assert narrow[PEAK] - wide[PEAK] == max(0, max(sizes) - 1000)
        assert narrow[TOTAL] - wide[TOTAL] == sum(max(0, size - 1000) for size in sizes)


def test_a_copy_to_the_host_runs_beside_blocks_and_other_copies() -> None:
    """Offload a value with time enough to carry it, and with none: the blocks between hide the first."""
    mesh = load_mesh("dgx-h100").part((("gpu", 1),))
    graph = offloaded(training(1 << 20, "float32"), ("active", 1, "squares"))
    kept = PlanSpace(training(1 << 20, "float32"), mesh)
    space = PlanSpace(graph, mesh)
    stored, at_once = kept.evaluate(kept.abstract_genes()), space.evaluate(space.abstract_genes())
    ahead = space.abstract_genes()
    ahead.prefetch[:] = 8
    hidden = space.evaluate(ahead)
    carried = int(host_ticks(mesh.device, (1 << 20) * 4 * 4))
    assert stored[TIME] + 2 * carried == at_once[TIME]
    assert stored[TIME] < hidden[TIME] < at_once[TIME]


def test_values_on_the_host_are_those_of_the_program() -> None:
    mesh, rng = with_host(load_mesh("dgx-h100")), np.random.default_rng(3)
    graph = offloaded_training(24, state=True)
    space, inputs = PlanSpace(graph, mesh), random_inputs(graph, rng)
    wanted = evaluate(graph, inputs)
    for genes in (random_genes(rng, space) for _ in range(8)):
        program = expand(graph, space.placements(genes), space.mesh_shape)
        found = simulate(program, mesh, inputs, capacity_check=False)
        for site, value in wanted.items():
            np.testing.assert_allclose(found.outputs[site], value, rtol=1e-5, atol=1e-5)
        assert found.queue_names[-2:] == ("to the host", "from the host")


def test_only_state_and_waypoints_lie_on_the_host() -> None:
    graph, shape = offloaded_training(24, state=True), MeshShape.of(gpu=8)
    whole = {block.site: whole_placement(block) for block in graph.blocks if not block.is_view}
    assert check_placements(graph, Placements(whole), shape) == []
    for site, layouts, reads, message in (
        ("x", (HOST,), (), "block 'x' leaves a tensor on the host"),
        ("active", (HOST,), (), "block 'active' leaves a tensor on the host"),
        ("found", (), ("", HOST), "block 'found' reads a tensor on the host"),
        ("active~host", (), (), "block 'active~host' is a waypoint on the host, but does not lie there"),
    ):
        wrong = whole | {site: replace(whole[site], layouts=layouts, read_layouts=reads)}
        (issue,) = check_placements(graph, Placements(wrong), shape)
        assert issue.message == message


def test_a_device_without_a_link_to_its_host_is_refused_by_name() -> None:
    mesh = load_mesh("t3000")
    with pytest.raises(
        MissingFigureError, match="device 'wormhole-n300' has no host_bytes_per_s, so that nothing can wait"
    ):
        PlanSpace(offloaded_training(24), mesh)


def test_a_mesh_without_axes_has_a_host() -> None:
    mesh = replace(with_host(load_mesh("dgx-h100")), axes=())
    graph = offloaded_training(24)
    program = expand(graph, Placements(), MeshShape(()))
    inputs = random_inputs(graph, np.random.default_rng(0))
    dry, run = simulate(program, mesh, dry=True), simulate(program, mesh, inputs)
    assert dry.peak_memory_bytes.tolist() == run.peak_memory_bytes.tolist()
    assert dry.makespan_ticks == run.makespan_ticks > 0
    for site, value in evaluate(graph, inputs).items():
        np.testing.assert_allclose(run.outputs[site], value, rtol=1e-5)
