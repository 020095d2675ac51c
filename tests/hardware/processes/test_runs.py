"""Tests of plans on real processes: values, bytes, and losses of processes that really end."""

import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread
from time import sleep

import numpy as np
import pytest

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.processes import DeviceProcesses, ProcessError, pool, run_on_processes
from tapestry.hardware.simulator import simulate
from tapestry.hardware.simulator.execution import Recovery
from tapestry.hardware.simulator.failure import Failure, Slowdown
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.hardware.timing import TICKS_PER_S, step_ticks
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.hardware.processes.counting import serve_counted
from tests.hardware.simulator.programs import MESHES, cell, mesh_of, random_placements, random_program
from tests.hardware.simulator.test_loss import FOUR, ROWS, chain, expanded

pytestmark = pytest.mark.slow

SHARDED = dict.fromkeys(("x", "c0", "c1", "c2", "c3", "y"), ROWS)
QUICK = (5, 7)  # two lost devices of one axis, one of two axes
SEEDS = [s if s in QUICK else pytest.param(s, marks=(pytest.mark.slow, pytest.mark.reach)) for s in range(30)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs_survive_a_loss(device_processes: DeviceProcesses, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph, program, mesh = random_case(rng, MESHES[1 + seed % (len(MESHES) - 1)])
    inputs = random_inputs(graph, rng)
    wanted, counted = evaluate(graph, inputs), simulate(program, mesh, dry=True)
    calm = run_on_processes(device_processes, program, mesh, inputs)
    check_values(calm.outputs, wanted)
    assert calm.received_bytes.tolist() == counted.received_bytes.tolist()
    count = int(rng.integers(1, min(3, mesh.device_count)))
    lost = tuple(sorted(rng.choice(mesh.device_count, count, replace=False).tolist()))
    failure = Failure(lost, float(rng.random()))
    hit = run_on_processes(device_processes, program, mesh, inputs, failure=failure)
    check_values(hit.outputs, wanted)
    assert untimed(hit.recovery) == untimed(simulate_loss(program, mesh, failure, dry=True).recovery)
    assert np.flatnonzero(np.isnan(hit.busy_s)).tolist() == list(lost)


def random_case(rng: np.random.Generator, mesh_shape: MeshShape) -> tuple[Graph, ExplicitGraph, Mesh]:
    graph = random_program(rng, state=True)
    return graph, expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape), mesh_of(mesh_shape)


def check_values(found: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> None:
    assert found.keys() == wanted.keys()
    for site, value in wanted.items():
        np.testing.assert_allclose(
            found[site], value, rtol=0, atol=1e-10 * max(1, np.abs(value).max(initial=0))
        )


def untimed(recovery: Recovery | None) -> Recovery:
    """Return the counts of a recovery; times that are measured differ from those that are simulated."""
    assert recovery is not None and recovery.recovery_ticks >= 0 and recovery.at_ticks >= 0
    return replace(recovery, recovery_ticks=0, at_ticks=0)


def test_processes_receive_the_bytes_that_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    graph, program, mesh = random_case(rng, MeshShape.of(node=2, gpu=2))
    counted = simulate(program, mesh, dry=True).received_bytes.tolist()
    with DeviceProcesses() as processes:
        monkeypatch.setattr(pool, "serve", partial(serve_counted, str(tmp_path)))
        found = run_on_processes(processes, program, mesh, random_inputs(graph, rng))
    assert [int((tmp_path / str(device)).read_text()) for device in range(4)] == counted
    assert found.received_bytes.tolist() == counted
    assert sum(counted) > 0


def test_all_but_one_device_may_be_lost(device_processes: DeviceProcesses) -> None:
    graph, mesh = chain(), mesh_of(FOUR)
    program = expanded(graph, **SHARDED)
    inputs = {"x": np.arange(1024, dtype=np.float32).reshape(64, 16)}
    hit = run_on_processes(device_processes, program, mesh, inputs, failure=Failure((0, 1, 3), 0.6))
    np.testing.assert_array_equal(hit.outputs["y"], inputs["x"] + 4)
    assert hit.recovery is not None and hit.recovery.hosts == (2, 2, 2)
    assert hit.recovery.rerun_blocks == 3 * hit.recovery.slot
    assert hit.recovery.reloaded_bytes == 3 * 1024


def test_reports_and_orders_may_be_larger_than_a_pipe_holds(device_processes: DeviceProcesses) -> None:
    b = GraphBuilder("wide")
    tensor = b.source("x", (512, 1024), "float32")
    for k in range(3):
        tensor = cell(b, f"c{k}", ("add", ("input", 0), ("const", 1.0)), (tensor,))
        b.sink(tensor, site=f"y{k}")
    sites = ("x", "c0", "c1", "c2", "y0", "y1", "y2")
    program = expand(b.build(), Placements(dict.fromkeys(sites, ROWS)), FOUR)
    inputs = {"x": np.ones((512, 1024), np.float32)}
    hit = run_on_processes(device_processes, program, mesh_of(FOUR), inputs, failure=Failure((1, 2), 0.5))
    assert [float(hit.outputs[f"y{k}"].mean()) for k in range(3)] == [2, 3, 4]
    assert hit.recovery is not None and hit.recovery.reloaded_bytes == 2**20


def test_a_process_that_ends_unexpectedly_is_named_and_ends_the_others(
    device_processes: DeviceProcesses,
) -> None:
    program, mesh = expanded(chain(), **SHARDED), mesh_of(FOUR)
    inputs = {"x": np.zeros((64, 16), np.float32)}
    device_processes.prepare(4)
    victim, others = (
        device_processes.workers[2].process,
        [device_processes.workers[d].process for d in (0, 1, 3)],
    )

    def end() -> None:
        while device_processes.progress[2] < 0:
            sleep(0.001)
        os.kill(victim.pid or 0, signal.SIGKILL)

    thread = Thread(target=end)
    thread.start()
    with pytest.raises(ProcessError, match=r"device 2 \(gpu:2\), at slot . .*ended unexpectedly \(SIGKILL\)"):
        run_on_processes(device_processes, program, mesh, inputs, slowdown=Slowdown({2: 1e6}))
    thread.join()
    assert [other.exitcode for other in others] == [-signal.SIGKILL] * 3
    again = run_on_processes(device_processes, program, mesh, inputs)
    np.testing.assert_array_equal(again.outputs["y"], inputs["x"] + 4)


def test_an_error_in_a_block_is_reported_with_its_device(device_processes: DeviceProcesses) -> None:
    b = GraphBuilder("looked up")
    table, rows = b.source("table", (4, 3), "float32"), b.source("rows", (4,), "int64")
    (found,) = b.apply("gather", (table, rows), site="found", axis=0)
    b.sink(found, site="y")
    split = Placement(Strategy((Split(("gpu.0", "gpu.1")), WHOLE, WHOLE)))
    program = expand(b.build(), Placements({"found": split}), FOUR)
    inputs = {"table": np.ones((4, 3), np.float32), "rows": np.array([0, 1, 9, 2])}
    with pytest.raises(ProcessError, match=r"device . \(gpu:.\), at slot 0 \(block 'found'\), failed: .*"):
        run_on_processes(device_processes, program, mesh_of(FOUR), inputs)
    assert not device_processes.workers


def test_a_run_that_does_not_come_on_is_ended(device_processes: DeviceProcesses) -> None:
    program, mesh = expanded(chain(), **SHARDED), mesh_of(FOUR)
    inputs = {"x": np.zeros((64, 16), np.float32)}
    run_on_processes(device_processes, program, mesh, inputs)  # the first blocks of a process take longer
    stopped = Slowdown({1: 1e9})
    message = r"no process has come to another slot for 1 s, .*device 1 \(gpu:1\)"
    with pytest.raises(ProcessError, match=message):
        run_on_processes(device_processes, program, mesh, inputs, slowdown=stopped, patience_s=1.0)
    assert not device_processes.workers


def gathering() -> ExplicitGraph:
    """Expand a chain on two nodes of two devices: a block on rows of all, and one that gathers them."""
    mesh_shape = MeshShape.of(node=2, gpu=2)
    rows = Placement(Strategy((Split(("node.0", "gpu.0")), WHOLE)))
    return expand(chain(2), Placements({"x": rows, "c0": rows}), mesh_shape)


def test_a_slow_device_keeps_the_others_waiting(device_processes: DeviceProcesses) -> None:
    program = gathering()
    mesh, inputs = mesh_of(program.mesh_shape), {"x": np.ones((64, 16), np.float32)}
    run_on_processes(device_processes, program, mesh, inputs)  # the first blocks of a process take longer
    slow = run_on_processes(device_processes, program, mesh, inputs, slowdown=Slowdown({3: 100.0}))
    np.testing.assert_array_equal(slow.outputs["y"], inputs["x"] + 2)
    assert slow.busy_s.argmax() == 3
    assert slow.waiting_s.argmin() == 3
    assert slow.seconds > slow.busy_s[3]


def test_a_slow_link_takes_its_factor_of_the_time_that_the_mesh_states(
    device_processes: DeviceProcesses,
) -> None:
    program = gathering()
    mesh, inputs = mesh_of(program.mesh_shape), {"x": np.ones((64, 16), np.float32)}
    slow = run_on_processes(device_processes, program, mesh, inputs, slowdown=Slowdown(axes={"node": 3000.0}))
    np.testing.assert_array_equal(slow.outputs["y"], inputs["x"] + 2)
    assert slow.received_bytes.tolist() == [3 * 1024] * 4
    crossing_bytes = simulate(program, mesh, dry=True).axis_bytes["node"] // 4
    least_s = 3000 * int(step_ticks(mesh.axis("node"), "fetch", 2, crossing_bytes)) / TICKS_PER_S
    assert slow.seconds >= least_s
    assert (slow.waiting_s > 0).all()


def test_inputs_and_meshes_that_do_not_fit_are_refused_before_anything_runs(
    device_processes: DeviceProcesses,
) -> None:
    program = expanded(chain(), **SHARDED)
    with pytest.raises(ValueError, match=r"needs a value of shape \(64, 16\)"):
        run_on_processes(device_processes, program, mesh_of(FOUR))
    with pytest.raises(ValueError, match="was made for a mesh with axes"):
        run_on_processes(device_processes, program, mesh_of(MeshShape.of(gpu=8)))
    large = MeshShape.of(gpu=128)
    with pytest.raises(ValueError, match="has 128 devices; at most 64 processes"):
        run_on_processes(device_processes, expand(chain(), Placements(), large), mesh_of(large))
