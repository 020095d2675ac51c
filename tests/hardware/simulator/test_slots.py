"""Tests of the events in each slot: allocations, waits and frees, the clocks, and running out of memory."""

import dataclasses
import json

import numpy as np
import pytest

from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import OutOfMemory, simulate, to_perfetto
from tapestry.hardware.simulator.lifetimes import Lifetimes
from tapestry.hardware.timing import block_ticks, move_ticks, step_ticks
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.hardware.simulator.programs import cell, mesh_of

TWO = MeshShape.of(gpu=2)
ROWS, COLUMNS = Strategy((Split(("gpu.0",)), WHOLE)), Strategy((WHOLE, Split(("gpu.0",))))
WHOLE_B, HALF_B = 1024, 512  # a tensor of 16 x 16 fp32, and one device's half of it
QUARTER_B = 256  # of the half, what the other device needs


def chain() -> Graph:
    """Build `a = -x`, `b = -a`, `c = a * b`, of which only `c` is observed; all tensors are equally large."""
    b = GraphBuilder("chain")
    x = b.source("x", (16, 16), "float32")
    unread = b.source("unread", (16, 16), "float32")
    assert unread in b.tensors
    a = cell(b, "a", ("neg", ("input", 0)), (x,))
    second = cell(b, "b", ("neg", ("input", 0)), (a,))
    b.sink(cell(b, "c", ("mul", ("input", 0), ("input", 1)), (a, second)), site="out")
    return b.build()


def regrouped(prefetch: int = 0) -> ExplicitGraph:
    """Place everything by rows, but `c` by columns: it waits for copies of `a` and `b`."""
    placements = {name: Placement(ROWS) for name in ("x", "unread", "a", "b")}
    placements["c"] = Placement(COLUMNS, prefetch=(prefetch, 0))
    placements["out"] = Placement(COLUMNS)
    return expand(chain(), Placements(placements), TWO)


def test_memory_of_every_slot() -> None:
    run = simulate(regrouped(), mesh_of(TWO), dry=True)
    unread = HALF_B
    assert run.source_memory_bytes.tolist() == [unread + HALF_B] * 2
    assert (run.memory_bytes // QUARTER_B)[:, :, 0].tolist() == [
        [4, 6],  # x, unread; then a; x is given up
        [4, 6],  # a, unread; then b
        [12, 8],  # two copies, what is sent packed before; their sources are given up before c is made
        [4, 4],  # the copies are given up, the sink keeps c
    ]
    assert run.peak_memory_bytes.tolist() == [6 * HALF_B] * 2


def test_a_prefetched_copy_lives_longer() -> None:
    program = regrouped(prefetch=1)
    assert [len(slot.issued) for slot in program.slots] == [0, 1, 1, 0]

    run = simulate(program, mesh_of(TWO), dry=True)

    assert (run.memory_bytes // QUARTER_B)[:, :, 0].tolist() == [[4, 6], [7, 9], [12, 8], [4, 4]]


def test_sources_that_are_not_activations_stay() -> None:
    b = GraphBuilder("kept")
    x = b.source("x", (16, 16), "float32", "parameter")
    b.sink(cell(b, "y", ("neg", ("input", 0)), (x,)))
    run = simulate(expand(b.build(), Placements(), TWO), mesh_of(TWO), dry=True)
    assert run.memory_bytes[-1, -1].tolist() == [2 * WHOLE_B] * 2


def test_clocks_of_every_block_and_copy() -> None:
    """Check that blocks last as long as `timing` says; block `b` lacks the cores that the copy beside it takes."""
    mesh = mesh_of(TWO)
    block = int(block_ticks(mesh.device, "vector", 128, 2 * HALF_B, "float32"))
    product = int(block_ticks(mesh.device, "vector", 128, 3 * HALF_B, "float32"))
    # Columns of rows are packed first. Then this quarter crosses the link, and another one stays where it is.
    crossing = int(step_ticks(mesh.axes[0], "all_to_all", 2, QUARTER_B))
    moving = int(move_ticks(mesh.device, QUARTER_B))
    copy = moving + max(crossing, moving)
    cores, taken = mesh.device.cores, mesh.device.communication_cores
    assert block < copy, "the copy runs all the time"
    beside = block + block * taken // (cores - taken)

    run = simulate(regrouped(prefetch=1), mesh, dry=True, trace=True)

    first, second = "a>[-, gpu.0]", "b>[-, gpu.0]"
    assert [event[1:6] for event in run.events if event.device == 1] == [
        ("compute", "a", 0, block, 2 * HALF_B),
        ("communication", first, block, block + copy, HALF_B // 2),
        ("compute", "b", block, block + beside, 2 * HALF_B),
        (
            "communication",
            second,
            block + copy,
            block + copy + copy,
            HALF_B // 2,
        ),
        ("compute", "c", run.makespan_ticks - product, run.makespan_ticks, 3 * HALF_B),
        ("compute", "out", run.makespan_ticks, run.makespan_ticks, 0),
    ]
    assert run.makespan_ticks == block + copy + copy + product
    assert run.compute_ticks.tolist() == [block + beside + product] * 2
    assert run.copy_ticks == 2 * copy


def small(mesh: Mesh, memory_bytes: int) -> Mesh:
    return dataclasses.replace(mesh, device=dataclasses.replace(mesh.device, memory_bytes=memory_bytes))


@pytest.mark.parametrize("dry", [True, False])
def test_out_of_memory_says_what_is_live(dry: bool) -> None:
    program, inputs = regrouped(), {name: np.ones((16, 16), np.float32) for name in ("x", "unread")}
    mesh = small(mesh_of(TWO), 6 * HALF_B)
    simulate(program, mesh, inputs, dry=dry)

    with pytest.raises(OutOfMemory) as caught:
        simulate(program, small(mesh, 5 * HALF_B + QUARTER_B), inputs, dry=dry)

    error = caught.value
    assert (error.device, error.slot, error.needed_bytes, error.capacity_bytes) == (
        0,
        2,
        6 * HALF_B,
        5 * HALF_B + QUARTER_B,
    )
    copies = ["a>[-, gpu.0]", "b>[-, gpu.0]"]
    assert sorted(live.name for live in error.live) == sorted(
        ["a", "b", "unread", *copies, *(f"{copy} (staging)" for copy in copies)]
    )
    assert str(error).startswith(
        "device 0 is out of memory at slot 2 (block 'c'): 3,072 B are needed, it has 2,816 B; "
        "the largest live buffers are a 512 B, a>[-, gpu.0] 512 B, b 512 B, b>[-, gpu.0] 512 B"
    )
    simulate(program, small(mesh, 5 * HALF_B + QUARTER_B), inputs, dry=dry, capacity_check=False)


def test_out_of_memory_before_the_first_slot() -> None:
    with pytest.raises(OutOfMemory, match=r"device 0 .* before the first slot: 1,024 B are needed") as caught:
        simulate(regrouped(), small(mesh_of(TWO), 1000), dry=True)
    assert caught.value.slot == -1


def test_the_trace_opens_in_perfetto() -> None:
    run = simulate(regrouped(), mesh_of(TWO), dry=True, trace=True)

    trace = json.loads(json.dumps(to_perfetto(run)))

    names = {
        (e["pid"], e["tid"], e["args"]["name"]) for e in trace["traceEvents"] if e["name"] == "thread_name"
    }
    assert names == {(d, k, s) for d in (0, 1) for k, s in enumerate(("compute", "communication"))}
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == 0]
    assert [e["name"] for e in spans] == ["a", "b", "a>[-, gpu.0]", "b>[-, gpu.0]", "c", "out"]
    assert max(e["ts"] + e["dur"] for e in spans) <= run.makespan_ticks / 1e6 * (1 + 1e-12)
    assert simulate(regrouped(), mesh_of(TWO), dry=True).events == ()
    path = sorted({(e["ts"], e["dur"]) for e in trace["traceEvents"] if e.get("args", {}).get("critical")})
    assert sum(duration for _, duration in path) == pytest.approx(run.makespan_ticks / 1e6, rel=1e-12)
    assert [ts for ts, _ in path[1:]] == pytest.approx(
        [ts + duration for ts, duration in path[:-1]], rel=1e-12
    )


def test_more_by_the_clock_than_by_the_slot_is_an_error() -> None:
    lifetimes = Lifetimes(1)
    lifetimes.begin_slot(np.array([0]))
    lifetimes.allocate("a", np.array([10]), 0)
    lifetimes.allocate("b", np.array([10]), 5)
    lifetimes.used("a", 7)
    lifetimes.used("b", 9)
    lifetimes.check(set(), np.array([[[10], [20]]]))
    with pytest.raises(
        RuntimeError, match="device 0, slot 0: 20 B are live by the clock at tick 5, 1 B more"
    ):
        lifetimes.check(set(), np.array([[[10], [19]]]))


def test_another_mesh_is_refused() -> None:
    with pytest.raises(ValueError, match=r"made for a mesh with axes \(\('gpu', 2\),\), not for 'made up'"):
        simulate(regrouped(), mesh_of(MeshShape.of(gpu=4)), dry=True)
