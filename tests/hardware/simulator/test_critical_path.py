"""Tests of the critical path: it has no gaps, and its parts make up the time of the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.simulator import critical_path, simulate, time_estimate
from tapestry.hardware.simulator.critical_path import ticks_by_class
from tapestry.hardware.simulator.execution import COMMUNICATION, COMPUTE
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.cases import first
from tests.hardware.simulator.programs import MESHES, mesh_of, random_placements, random_program

# Devices with tables of kernels, and with efficiencies only.
DEVICES = ("h100-sxm5-80gb", "wormhole-n300")


def random_expansion(mesh_shape: MeshShape, seed: int) -> ExplicitGraph:
    rng = np.random.default_rng([seed, mesh_shape.device_count])
    graph = random_program(rng)
    return expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)


@pytest.mark.parametrize("seed", first(2, range(20)))
@pytest.mark.parametrize("mesh_shape", MESHES, ids=lambda m: "x".join(str(n) for _, n in m.axes))
def test_the_path_makes_up_the_time_of_random_plans(mesh_shape: MeshShape, seed: int) -> None:
    program = random_expansion(mesh_shape, seed)
    for device in DEVICES:
        mesh = mesh_of(mesh_shape, device)
        run = simulate(program, mesh, dry=True, capacity_check=False, trace=True, compute_dtype="fp32")

        path = critical_path(run.spans, run.makespan_ticks)

        assert [visit.start_ticks for visit in path] == [0, *(v.end_ticks for v in path[:-1])]
        assert path[-1].end_ticks == run.makespan_ticks
        known = {(e.device, e.stream, e.name, e.start_ticks, e.end_ticks) for e in run.events}
        assert all((v.device, v.span.stream, v.span.name, v.start_ticks, v.end_ticks) in known for v in path)
        found = ticks_by_class(path, mesh)
        assert sum(found.values()) == run.makespan_ticks
        assert all(ticks > 0 and each.name and each.error > 0 for each, ticks in found.items())


def two_products(mesh: Mesh) -> ExplicitGraph:
    """Build `x @ w`, of which all rows are gathered for what is next."""
    b = GraphBuilder("two")
    x, w = b.source("x", (64, 32), "float16"), b.source("w", (32, 64), "float16", "parameter")
    (y,) = b.apply("contract", (x, w), site="y", labels=(("m", "k"), ("k", "n")), output=("m", "n"))
    b.sink(b.apply("softmax", (y,), site="z", axes=(1,))[0], site="out")
    rng, shape = np.random.default_rng(3), MeshShape(mesh.axis_sizes)
    graph = b.build()
    while True:
        program = expand(graph, random_placements(rng, graph, shape), shape)
        run = simulate(program, mesh, dry=True)
        if {COMPUTE, COMMUNICATION} <= {each.stream for each in run.spans} and run.axis_bytes["gpu"]:
            return program


def test_errors_are_those_of_the_tables_that_count() -> None:
    mesh = load_mesh("dgx-h100")
    program = two_products(mesh)
    run = simulate(program, mesh, dry=True, trace=True)
    estimate = time_estimate(run, mesh)
    assert estimate.seconds == pytest.approx(run.makespan_ticks / TICKS_PER_S)
    for name, each in estimate.classes.items():
        if name in mesh.device.kernels:
            assert each.error == pytest.approx(mesh.device.kernels[name].error)
        else:
            assert name.endswith(" on gpu")
    assert {"matrix_product.fp16"} < {event.kind for event in run.events}
    certain = {name: replace(each, error=0.0) for name, each in mesh.device.kernels.items()}
    calm = replace(mesh, device=replace(mesh.device, kernels=certain))
    assert time_estimate(simulate(program, calm, dry=True), calm).error < estimate.error
