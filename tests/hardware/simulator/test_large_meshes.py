"""Tests that dry runs by device class equal dry runs of all devices, and stay quick on a thousand devices."""

import numpy as np
import pytest

from tapestry.hardware.simulator import dry_run, simulate
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.hardware.simulator.programs import MESHES, mesh_of, random_placements, random_program

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mesh_shape", MESHES, ids=lambda m: "x".join(str(n) for _, n in m.axes))
def test_by_class_as_in_full(mesh_shape: MeshShape, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(mesh_shape.device_count)
    for _ in range(5):
        graph = random_program(rng)
        program = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
        full = simulate(program, mesh_of(mesh_shape), dry=True)
        with monkeypatch.context() as patch:
            patch.setattr(dry_run, "LARGEST_FULL_MESH", 0)
            by_class = simulate(program, mesh_of(mesh_shape), dry=True)
        assert (full.received_bytes == by_class.received_bytes).all()
        assert (full.memory_bytes == by_class.memory_bytes).all()
        assert full.axis_bytes == by_class.axis_bytes
        assert full.makespan_ticks == by_class.makespan_ticks


def test_a_thousand_devices() -> None:
    mesh_shape = MeshShape.of(pod=8, row=8, column=16)
    rng = np.random.default_rng(0)
    graph = random_program(rng, steps=12)
    run = simulate(
        expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape), mesh_of(mesh_shape), dry=True
    )
    assert run.link_bytes is None
    assert run.received_bytes.shape == (1024,)
    assert sum(run.axis_bytes.values()) == run.traffic_bytes > 0
