"""Tests of any program under any legal placement: the values of the reference, and the same counts wet and dry."""

import dataclasses

import numpy as np
import pytest

from tapestry.hardware.simulator import Execution, simulate
from tapestry.teg.arrays import NUMPY, arrays_named
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.cases import first
from tests.hardware.simulator.programs import MESHES, mesh_of, random_placements, random_program

pytestmark = pytest.mark.slow


def assert_same_counts(a: Execution, b: Execution) -> None:
    for field in dataclasses.fields(Execution):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if field.name == "outputs":
            continue
        if field.name == "staging_bytes":
            assert left.keys() == right.keys()
            assert all((left[k] == right[k]).all() for k in left)
        elif field.name == "spans":  # events have their arrays
            assert [each[6:] for each in left] == [each[6:] for each in right]
        elif field.name == "events":
            assert left == right
        else:
            assert np.array_equal(left, right), f"{field.name}: {left} and {right}"


def random_case(mesh_shape: MeshShape, seed: int) -> tuple[Graph, ExplicitGraph, dict[str, np.ndarray]]:
    """Draw a program, its placements and its inputs."""
    rng = np.random.default_rng([seed, mesh_shape.device_count, len(mesh_shape.axes)])
    graph = random_program(rng)
    program = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    inputs = {k: v - 4 if v.dtype.kind == "i" else v for k, v in random_inputs(graph, rng).items()}
    return graph, program, {k: np.clip(v, 0, 2) if v.dtype.kind == "i" else v for k, v in inputs.items()}


@pytest.mark.parametrize("seed", first(2, range(25)))
@pytest.mark.parametrize("mesh_shape", MESHES, ids=lambda m: "x".join(str(n) for _, n in m.axes))
def test_random_programs(mesh_shape: MeshShape, seed: int) -> None:
    graph, program, inputs = random_case(mesh_shape, seed)

    run = simulate(program, mesh_of(mesh_shape), inputs, trace=True)

    expected = evaluate(graph, inputs)
    assert run.outputs.keys() == expected.keys()
    for site, value in expected.items():
        np.testing.assert_allclose(run.outputs[site], value, rtol=1e-9, atol=1e-9)
    assert_same_counts(run, simulate(program, mesh_of(mesh_shape), dry=True, trace=True))


@pytest.mark.parametrize("seed", first(1, range(10)))
@pytest.mark.parametrize("mesh_shape", MESHES, ids=lambda m: "x".join(str(n) for _, n in m.axes))
def test_torch_moves_the_same_bytes(mesh_shape: MeshShape, seed: int) -> None:
    """Check values up to rounding, and every count exactly, where devices store rows and where they store tiles."""
    pytest.importorskip("torch")
    graph, program, inputs = random_case(mesh_shape, seed)
    expected = evaluate(graph, inputs)
    for mesh in (mesh_of(mesh_shape), mesh_of(mesh_shape, device="wormhole-n300")):
        torch, numpy = (
            simulate(program, mesh, inputs, trace=True, compute_dtype="fp32", xp=xp)
            for xp in (arrays_named("torch", "cpu"), NUMPY)
        )
        for site, value in expected.items():
            np.testing.assert_allclose(torch.outputs[site], value, rtol=1e-9, atol=1e-9)
        assert_same_counts(torch, numpy)
