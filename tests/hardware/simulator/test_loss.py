"""Tests of the loss of devices: the run goes on, its outputs are the same, and little is computed again."""

from dataclasses import replace

import numpy as np
import pytest

from tapestry.hardware.simulator import simulate
from tapestry.hardware.simulator.execution import OutOfMemory
from tapestry.hardware.simulator.failure import Failure
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.hardware.simulator.programs import MESHES, cell, mesh_of, random_placements, random_program
from tests.teg.sharding.looped import in_rounds, random_looped, training, training_by_terms

FOUR = MeshShape.of(gpu=4)
ROWS = Placement(Strategy((Split(("gpu.0", "gpu.1")), WHOLE)))


@pytest.mark.parametrize("seed", range(30))
def test_outputs_of_random_programs_survive_a_loss(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mesh_shape = MESHES[1 + seed % (len(MESHES) - 1)]
    graph = random_program(rng, state=True)
    program, mesh = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape), mesh_of(mesh_shape)
    inputs = random_inputs(graph, rng)
    calm = simulate(program, mesh, inputs)
    count = int(rng.integers(1, min(3, mesh_shape.device_count)))
    lost = tuple(sorted(rng.choice(mesh_shape.device_count, count, replace=False).tolist()))
    failure = Failure(lost, float(rng.random()))
    hit = simulate_loss(program, mesh, failure, inputs)
    for site, value in calm.outputs.items():
        np.testing.assert_array_equal(hit.outputs[site], value)
    assert hit.recovery is not None
    assert not set(hit.recovery.hosts) & set(lost)
    assert hit.recovery.rerun_flops <= hit.recovery.executed_flops
    dry = simulate_loss(program, mesh, failure, dry=True)
    assert dry.recovery == hit.recovery
    assert dry.peak_memory_bytes.tolist() == hit.peak_memory_bytes.tolist()


@pytest.mark.parametrize("seed", range(24))
def test_sums_over_rounds_survive_a_loss_between_them(seed: int) -> None:
    """Lose a device while gradients are accumulated, or terms are on the way: all rounds so far run again."""
    rng = np.random.default_rng(seed)
    graph = training_by_terms() if seed % 2 else training()
    program = expand(graph, random_looped(rng, graph, FOUR, in_rounds(4)), FOUR)
    inputs, failure = random_inputs(graph, rng), Failure((seed % 4,), float(rng.uniform(0.1, 0.9)))
    calm = simulate(program, mesh_of(FOUR), inputs)
    hit = simulate_loss(program, mesh_of(FOUR), failure, inputs)
    for site, value in calm.outputs.items():
        np.testing.assert_array_equal(hit.outputs[site], value)
    dry = simulate_loss(program, mesh_of(FOUR), failure, dry=True)
    assert dry.recovery == hit.recovery


@pytest.mark.parametrize("seed", range(10))
def test_devices_of_one_host_send_each_other_nothing_after_a_loss(seed: int) -> None:
    """Check a loss before the first slot: what crosses between hosts is what crosses between their devices."""
    rng = np.random.default_rng(seed)
    mesh_shape = MESHES[1 + seed % (len(MESHES) - 1)]
    devices = np.arange(mesh_shape.device_count)
    graph = random_program(rng)
    program, mesh = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape), mesh_of(mesh_shape)
    inputs = random_inputs(graph, rng)
    lost = tuple(sorted(rng.choice(devices, int(rng.integers(1, len(devices))), replace=False).tolist()))
    calm = simulate(program, mesh, dry=True)
    hit = simulate_loss(program, mesh, Failure(lost, 0.0), inputs)
    assert hit.recovery is not None and calm.link_bytes is not None and hit.link_bytes is not None
    assert hit.recovery.slot == 0
    host = {int(d): int(d) for d in devices} | dict(zip(lost, hit.recovery.hosts, strict=True))
    expected = np.zeros_like(calm.link_bytes)
    for source, target in np.argwhere(calm.link_bytes).tolist():
        if host[source] != host[target]:
            expected[host[source], host[target]] += calm.link_bytes[source, target]
    np.testing.assert_array_equal(hit.link_bytes, expected)
    np.testing.assert_array_equal(hit.received_bytes, expected.sum(axis=0))
    assert sum(hit.axis_bytes.values()) == hit.traffic_bytes == expected.sum()
    dry = simulate_loss(program, mesh, Failure(lost, 0.0), dry=True)
    assert (dry.received_bytes.tolist(), dry.axis_bytes) == (hit.received_bytes.tolist(), hit.axis_bytes)


def chain(length: int = 4) -> Graph:
    """Build a chain of cells on 64 x 16 values, 4,096 bytes."""
    b = GraphBuilder("chain")
    tensor = b.source("x", (64, 16), "float32")
    for k in range(length):
        tensor = cell(b, f"c{k}", ("add", ("input", 0), ("const", 1.0)), (tensor,))
    b.sink(tensor, site="y")
    return b.build()


def expanded(graph: Graph, **placed: Placement) -> ExplicitGraph:
    return expand(graph, Placements(placed), FOUR)


def test_a_replica_is_read_from_its_nearest_survivor_and_nothing_is_computed() -> None:
    hit = simulate_loss(expanded(chain()), mesh_of(FOUR), Failure((2,), 0.6), dry=True)
    assert hit.recovery is not None
    assert (hit.recovery.rerun_blocks, hit.recovery.reloaded_bytes) == (0, 0)
    assert hit.recovery.received_bytes <= hit.recovery.lost_bytes


def test_a_lost_shard_is_computed_again_from_its_source_alone() -> None:
    sharded = dict.fromkeys(("x", "c0", "c1", "c2", "c3", "y"), ROWS)
    program, mesh = expanded(chain(), **sharded), mesh_of(FOUR)
    hit = simulate_loss(program, mesh, Failure((2,), 0.6), dry=True)
    recovery = hit.recovery
    assert recovery is not None
    done = recovery.slot
    assert 1 <= done < 5
    assert recovery.rerun_blocks == done  # the lost quarter of each block so far
    assert recovery.rerun_flops * 4 == recovery.executed_flops
    assert recovery.reloaded_bytes == 1024
    assert recovery.received_bytes == 0


def test_the_host_has_room_for_both_shares_or_the_run_ends() -> None:
    sharded = dict.fromkeys(("x", "c0", "c1", "c2", "c3", "y"), ROWS)
    program, mesh = expanded(chain(), **sharded), mesh_of(FOUR)
    calm = simulate(program, mesh, dry=True)
    hit = simulate_loss(program, mesh, Failure((2,), 0.6), dry=True)
    host = hit.recovery.hosts[0] if hit.recovery else 0
    assert hit.peak_memory_bytes[host] == 2 * calm.peak_memory_bytes[host]
    small = replace(mesh, device=replace(mesh.device, memory_bytes=int(calm.peak_memory_bytes.max())))
    with pytest.raises(OutOfMemory, match=f"device {host} is out of memory"):
        simulate_loss(program, small, Failure((2,), 0.6), dry=True)
    assert hit.makespan_ticks > calm.makespan_ticks
