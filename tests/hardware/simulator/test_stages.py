"""Tests of runs of plans with stages: values, counts, the bubbles of pipelines, and what rounds under way hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import Execution, OutOfMemory, dry_run, simulate, simulate_steps
from tapestry.hardware.simulator.counting import count_copy
from tapestry.hardware.simulator.critical_path import critical_path, time_estimate
from tapestry.hardware.simulator.failure import Failure, Slowdown
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.hardware.simulator.steps import check_state
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.evaluate import evaluate
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.stages import Stages
from tests.cases import rotating
from tests.hardware.simulator.programs import mesh_of
from tests.teg.sharding.looped import training
from tests.teg.sharding.pipelined import Pipelined, chain, drawn, free_copies, in_parts, one_layer_each

COUNTS = (
    *("peak_memory_bytes", "memory_bytes", "source_memory_bytes", "received_bytes", "compute_ticks"),
    *("flops", "accessed_bytes"),
)
EIGHT = MeshShape.of(gpu=8)
SECOND = 10**12  # ticks
UNIT = 64 * 64 * 4  # bytes of a weight of a chain, and of what a layer makes of 64 rows


def values(graph: Graph, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        s.site: rng.standard_normal(graph.tensors[s.outputs[0]].shape).astype("f4") for s in graph.sources
    }


def counts(run: Execution) -> dict[str, Any]:
    """Return what an array run and a dry run have in common."""
    found: dict[str, Any] = {name: getattr(run, name).tolist() for name in COUNTS}
    found |= {name: getattr(run, name) for name in ("makespan_ticks", "copy_ticks", "axis_bytes")}
    found["staging_bytes"] = {name: sizes.tolist() for name, sizes in run.staging_bytes.items()}
    return found


def check_counts(case: Pipelined, run: Execution) -> None:
    """Check that the counts of a run agree with each other."""
    assert run.link_bytes is not None
    assert run.link_bytes.sum(axis=0).tolist() == run.received_bytes.tolist()
    assert np.diag(run.link_bytes).sum() == 0
    assert sum(run.axis_bytes.values()) == run.traffic_bytes
    assert len(run.received_bytes) == case.program.device_count
    path = critical_path(run.spans, run.makespan_ticks)
    assert sum(visit.end_ticks - visit.start_ticks for visit in path) == run.makespan_ticks
    used = case.mesh.part(case.program.axes)
    assert time_estimate(run, used).seconds == pytest.approx(run.makespan_ticks / SECOND, rel=1e-9)


@pytest.mark.parametrize("seed", [*range(6), *rotating(5, range(6, 60))])
def test_random_plans_compute_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = drawn(seed)
    inputs = values(case.graph, seed)
    run = simulate(case.program, case.mesh, inputs, capacity_check=False)
    dry = simulate(case.program, case.mesh, dry=True, capacity_check=False)
    for site, value in evaluate(case.graph, inputs).items():
        np.testing.assert_allclose(run.outputs[site], value, rtol=2e-4, atol=1e-4)
    assert counts(run) == counts(dry)
    assert run.link_bytes is not None
    assert dry.link_bytes is not None
    assert run.link_bytes.tolist() == dry.link_bytes.tolist()
    check_counts(case, run)
    monkeypatch.setattr(dry_run, "LARGEST_FULL_MESH", 0)
    by_class = simulate(case.program, case.mesh, dry=True, capacity_check=False)
    assert counts(by_class) == counts(dry)


def test_what_goes_between_stages_is_between_their_devices() -> None:
    """Check a chain over two stages of two devices: each gets what its neighbor in the other stage has."""
    graph = chain(2, 64)
    program = expand(graph, one_layer_each(graph, Stages(2), 1, "gpu:2"), EIGHT)
    run = simulate(program, mesh_of(EIGHT), dry=True)
    assert run.link_bytes is not None
    forth, back = UNIT, UNIT
    assert run.link_bytes.tolist() == [
        [0, 0, forth, 0],
        [0, 0, 0, forth],
        [back, 0, 0, 0],
        [0, back, 0, 0],
    ]


# Theory.

PIPELINES = [
    (4, 1, 8, "gpipe"),
    (4, 1, 8, "1f1b"),
    (4, 1, 4, "1f1b"),
    (2, 1, 6, "1f1b"),
    (8, 1, 16, "1f1b"),
    (4, 2, 8, "interleaved"),
    (2, 4, 8, "interleaved"),
    (4, 2, 16, "interleaved"),
    (8, 1, 8, "gpipe"),
]


def chained(stages: int, parts: int, rounds: int, schedule: str) -> Execution:
    """Run a chain with one layer in each of `parts` parts per stage, of 64 rows per round; copies are free."""
    graph = chain(stages * parts, 64 * rounds)
    program = expand(graph, one_layer_each(graph, Stages(stages, schedule), rounds), EIGHT)
    return simulate(program, free_copies(load_mesh("dgx-a100")), dry=True)


@pytest.mark.parametrize(("stages", "parts", "rounds", "schedule"), PIPELINES)
def test_bubbles_are_those_of_theory(stages: int, parts: int, rounds: int, schedule: str) -> None:
    """Compare with Narayanan et al. 2021, section 2.2: (p - 1) / (v m) of the time of work."""
    run = chained(stages, parts, rounds, schedule)
    work_ticks = 3 * 64 * rounds * parts * 10**6  # 1 us forward, 2 us back
    assert run.compute_ticks.tolist() == [work_ticks] * stages
    bubble_ticks = run.makespan_ticks - work_ticks
    free_ticks = work_ticks * (stages - 1) // (parts * rounds)
    assert 0 <= bubble_ticks - free_ticks <= run.copy_ticks <= 1000


@pytest.mark.parametrize(("stages", "rounds"), [(2, 6), (4, 8), (8, 16)])
def test_late_gradients_of_weights_leave_a_third_of_the_bubble(stages: int, rounds: int) -> None:
    """Compare with Qi et al. 2023, table 1 (ZB-H1): the bubble is (p - 1) (T_F + T_B - T_W).

    Each late round holds what a stage made forward and what came back, on the last stage its own result instead.
    """
    run = chained(stages, 1, rounds, "zb-h1")
    work_ticks, one_ticks = 3 * 64 * rounds * 10**6, 64 * 10**6
    assert run.compute_ticks.tolist() == [work_ticks] * stages
    free_ticks = (stages - 1) * one_ticks
    assert 0 <= run.makespan_ticks - work_ticks - free_ticks <= run.copy_ticks <= 1000
    held, ordered = (chained(stages, 1, rounds, each).peak_memory_bytes / UNIT for each in ("zb-h1", "1f1b"))
    assert (held - ordered).tolist() == [0, *(2 * s + 1 for s in range(1, stages - 1)), stages - 2]


@pytest.mark.parametrize(("stages", "rounds"), [(2, 6), (4, 4), (4, 8), (8, 16)])
def test_one_forward_one_back_holds_a_round_per_stage_that_follows(stages: int, rounds: int) -> None:
    """Check peaks: on stage s of p, what p - s rounds made forward, beside five pieces of the same size.

    Those are a weight, its gradient, what comes in, and what goes back twice. Nothing comes in on the first stage,
    which holds all rounds of the input instead, until it has read them.
    """
    held = chained(stages, 1, rounds, "1f1b").peak_memory_bytes / UNIT
    assert held.tolist() == [rounds + 4, *(5 + stages - s for s in range(1, stages))]


def test_all_forward_first_holds_all_rounds() -> None:
    """Check stages before the last one, which has nothing to wait for."""
    few, many = (chained(4, 1, rounds, "gpipe").peak_memory_bytes / UNIT for rounds in (8, 16))
    assert (few[:-1] >= 8 + 4).all()
    assert (many[:-1] >= 16 + 4).all()
    ordered = chained(4, 1, 16, "1f1b").peak_memory_bytes / UNIT
    assert (ordered[1:] <= 8).all()


def test_copies_between_stages_are_on_the_way_out_and_back() -> None:
    """Check that a run is longer by those of one round, and at most by one per round, for which a sender waits."""
    free, graph = chained(4, 1, 8, "gpipe"), chain(4, 64 * 8)
    program = expand(graph, one_layer_each(graph, Stages(4, "gpipe"), 8), EIGHT)
    run = simulate(program, load_mesh("dgx-a100"), dry=True)
    copies = [span for span in run.spans if span.is_joint]
    assert len(copies) == 2 * 3 * 8
    (one_ticks,) = {int(span.end_ticks[0] - span.start_ticks[0]) for span in copies}
    late_ticks = run.makespan_ticks - free.makespan_ticks
    assert 2 * 3 * (one_ticks - 1) <= late_ticks <= (2 * 3 + 8) * one_ticks


# State, slow devices and links, lost devices.


@pytest.mark.parametrize("seed", [*range(3), *rotating(5, range(3, 30))])
def test_two_steps_of_random_plans(seed: int) -> None:
    case = drawn(seed, state=True)
    check_state(case.program)
    inputs = values(case.graph, seed)
    options = {"capacity_check": False}
    first, second = simulate_steps(case.program, case.mesh, inputs, steps=2, **options)
    assert second.traffic_bytes == first.traffic_bytes
    assert second.makespan_ticks == first.makespan_ticks
    wanted = evaluate(case.graph, inputs)
    later = {source.site: wanted[sink] for sink, source in case.graph.carriers.items()}
    assert set(later) == {"w1", "w2"}
    for run, expected in ((first, wanted), (second, evaluate(case.graph, inputs | later))):
        for site, value in expected.items():
            np.testing.assert_allclose(run.outputs[site], value, rtol=2e-4, atol=1e-4)


def test_state_is_left_on_the_stage_where_it_begins() -> None:
    graph = training(24, "float32", state=True)
    sites = {block.site: block for block in graph.blocks}
    whole = Placements({}, devices="gpu:2", stages=Stages(2))
    placed = {
        "w1": replace(whole.of(sites["w1"]), part=1),
        "new.w2": replace(whole.of(sites["new.w2"]), part=1),
    }
    program = expand(graph, replace(whole, blocks=placed), EIGHT)
    sinks = {slot.step.site: slot.step for slot in program.slots if slot.step.definition.operator == "sink"}
    assert (sinks["updated.w1"].stage, sinks["updated.w2"].stage) == (1, 0)
    elsewhere = {**program.buffers, "w1": replace(program.buffers["w1"], stage=0)}
    with pytest.raises(RuntimeError, match="state 'w1' ends a step on stage 1 and begins one on stage 0"):
        list(simulate_steps(replace(program, buffers=elsewhere), mesh_of(EIGHT), dry=True, steps=2))


def test_a_slow_device_slows_down_its_own_stage() -> None:
    """Check device 3 of two nodes with four devices each: with those above and below, it is in the second stage."""
    shape, graph = MeshShape.of(node=2, gpu=4), chain(2, 64 * 4)
    program = expand(graph, one_layer_each(graph, Stages(2), 4, "gpu:2"), shape)
    assert program.stages is not None
    assert program.stages.devices.tolist() == [[0, 1, 4, 5], [2, 3, 6, 7]]
    mesh = free_copies(mesh_of(shape))
    even = simulate(program, mesh, dry=True)
    slow = simulate(program, mesh, dry=True, slowdown=Slowdown({3: 2.0}))
    expected = even.compute_ticks * np.where(np.arange(8) == 5, 2, 1)
    assert np.abs(slow.compute_ticks - expected).max() <= 10 * slow.copy_ticks
    assert slow.makespan_ticks > 1.5 * even.makespan_ticks
    unused = simulate(program, mesh, dry=True, slowdown=Slowdown({}))
    assert unused.makespan_ticks == even.makespan_ticks


@pytest.mark.parametrize("stages", (None, Stages(2)))
def test_each_device_holds_what_its_own_memory_has_room_for(stages: Stages | None) -> None:
    """Have all nodes hold the same, or, with stages, the first one everything."""
    graph, mesh = training(1 << 10, "float32"), load_mesh("dgx-h200+dgx-h100")
    plan = Placements({}, devices="node:1,gpu:8" if stages else "", stages=stages)
    explicit = expand(graph, plan, MeshShape(mesh.axis_sizes))
    peak = int(simulate(explicit, mesh, dry=True, capacity_check=False).peak_memory_bytes.max())

    def run(first: int, second: int) -> None:
        nodes = [with_memory(node, size) for node, size in zip(mesh.nodes, (first, second), strict=True)]
        simulate(explicit, Mesh.of_nodes("sized", nodes, mesh.axes[0]), dry=True)

    run(peak, 1 if stages else peak)
    with pytest.raises(OutOfMemory, match="device 0 is out of memory"):
        run(peak - 1, peak)
    if not stages:
        with pytest.raises(OutOfMemory, match="device 8 is out of memory"):
            run(peak, peak - 1)


def with_memory(mesh: Mesh, size_bytes: int) -> Mesh:
    return replace(mesh, device=replace(mesh.device, memory_bytes=size_bytes))


def test_a_slow_device_that_no_stage_has_changes_nothing() -> None:
    graph = chain(2, 64)
    program = expand(graph, one_layer_each(graph, Stages(2), 1), EIGHT)
    runs = [
        simulate(program, mesh_of(EIGHT), dry=True, slowdown=Slowdown(slow))
        for slow in ({}, {2: 9.0, 7: 9.0})
    ]
    assert runs[0].makespan_ticks == runs[1].makespan_ticks


def test_slow_links_lengthen_what_crosses_them() -> None:
    shape, graph = MeshShape.of(node=2, gpu=4), chain(2, 64)
    program = expand(graph, one_layer_each(graph, Stages(2), 1, "node:1,gpu:2"), shape)
    even, slow, same = (
        simulate(program, mesh_of(shape), dry=True, slowdown=Slowdown(axes=axes))
        for axes in ({}, {"gpu": 3.0}, {"node": 3.0})
    )
    assert even.axis_bytes["gpu"] == even.traffic_bytes > 0
    assert slow.copy_ticks == 3 * even.copy_ticks
    assert same.copy_ticks == even.copy_ticks


def test_devices_that_need_the_same_share_what_comes_over_slow_links() -> None:
    """Check stages of one node: each device gets a quarter from the other node, the rest from its neighbors."""
    shape, graph = MeshShape.of(node=2, gpu=4), chain(2, 64)
    program = expand(graph, one_layer_each(graph, Stages(2), 1, "node:1,gpu:4"), shape)
    run = simulate(program, mesh_of(shape), dry=True)
    assert run.axis_bytes == {"node": 2 * UNIT, "gpu": 2 * 3 * UNIT}


def test_a_loss_of_devices_is_refused() -> None:
    graph = chain(2, 64)
    program = expand(graph, one_layer_each(graph, Stages(2), 1), EIGHT)
    with pytest.raises(ValueError, match="losing devices does not support plans with stages"):
        simulate_loss(program, mesh_of(EIGHT), Failure((1,), 0.5), dry=True)


def test_the_mesh_is_the_one_in_which_stages_lie() -> None:
    graph = chain(2, 64)
    program = expand(graph, one_layer_each(graph, Stages(2), 1), EIGHT)
    with pytest.raises(ValueError, match="was made for a mesh with axes"):
        simulate(program, mesh_of(MeshShape.of(gpu=1)), dry=True)
    assert len(simulate(program, mesh_of(EIGHT), dry=True).flops) == 2


def test_a_stage_that_has_no_work_holds_nothing() -> None:
    graph = chain(2, 64)
    program = expand(graph, in_parts(graph, {0: 0, 1: 2}, Stages(3), 1), EIGHT)
    run = simulate(program, mesh_of(EIGHT), dry=True)
    assert (run.peak_memory_bytes[1], run.flops[1], run.received_bytes[1]) == (0, 0, 0)
    assert (run.peak_memory_bytes[[0, 2]] > 0).all()


@pytest.mark.parametrize("seed", range(5))
def test_classes_of_devices_count_as_devices_do(seed: int) -> None:
    """Compare counts of copies between stages by class with those by device."""
    case = drawn(seed)
    routed = 0
    for copy in (copy for slot in case.program.slots for copy in slot.issued):
        buffer = case.program.buffers[copy.source]
        args = (copy.plan, buffer.shape, case.program.mesh_shape, item_bytes(buffer.dtype))
        by_class, by_device = count_copy(*args, True), count_copy(*args, False)
        assert by_class.busiest == by_device.busiest
        assert by_class.received_bytes.tolist() == by_device.received_bytes.tolist()
        routed += copy.plan.route is not None
    assert routed > 5
