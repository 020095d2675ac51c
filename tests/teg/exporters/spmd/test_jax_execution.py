"""Exported JAX programs on eight virtual devices: values are the reference's, and collectives move the plan's bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.torch_programs import PROGRAMS, live
from tapestry.costmodel.reference_copies import CopyCounter
from tapestry.hardware.mesh import Mesh
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_jax
from tapestry.teg.exporters.spmd.collectives import is_local, regular_fetch, regular_scatter
from tapestry.teg.exporters.spmd.part_functions import is_even
from tapestry.teg.interface import unpack_outputs
from tapestry.teg.pruning import prune
from tapestry.teg.sharding.copies import CopyPlan
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import boxes
from tapestry.teg.tensor_files import typed
from tests.cases import rotating
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.element_types import typed_collectives
from tests.teg.exporters.spmd.models import noise, with_values
from tests.teg.exporters.spmd.plans import gathered_twice, mesh_of, model_plans, placed, placed_model
from tests.teg.exporters.spmd.test_execution import assert_close
from tests.teg.exporters.spmd.test_module import perceptron, reference, split_columns
from tests.teg.sharding.programs import random_placements, random_program

pytestmark = pytest.mark.slow

PAIR, LINE, GRID = MeshShape.of(gpu=2), MeshShape.of(gpu=8), MeshShape.of(node=2, gpu=4)


def planned_bytes(explicit: ExplicitGraph, mesh: Mesh) -> Counter[str]:
    """Count what devices receive by kind of collective, with the plain counter of copies.

    Where parts differ in size, all-reduces carry the largest one on every device.
    """
    found: Counter[str] = Counter()
    for copy in (copy for slot in explicit.slots for copy in slot.issued):
        source = explicit.buffers[copy.source]
        shape, item = source.shape, item_bytes(source.dtype)
        plan, mesh_shape = copy.plan, explicit.mesh_shape
        even = all(is_even(boxes(s, shape, mesh_shape)) for s in (plan.source, plan.middle, plan.needed))

        def received(part: CopyPlan, shape: tuple[int, ...] = shape, item: int = item) -> int:
            return CopyCounter(part, shape, item, mesh).count().traffic_bytes

        scattered, reduced = replace(plan, reduce=(), fetch=False), replace(plan, fetch=False)
        if plan.scatter:
            regular = even and regular_scatter(plan, shape, mesh_shape) is not None
            found["reduce_scatter" if regular else "collective_permute"] += received(scattered)
        if plan.reduce:
            count = received(reduced) - (received(scattered) if plan.scatter else 0)
            held = boxes(plan.middle, shape, mesh_shape)
            members = int(np.prod([mesh_shape.size_of(axes) for _, axes in plan.reduce]))
            largest = int(np.prod((held[:, :, 1] - held[:, :, 0]).max(axis=0)))
            if plan.source.monoid in ("sum", "max", "min") and source.dtype != "bool":
                found["all_reduce"] += 2 * mesh_shape.device_count // members * (members - 1) * largest * item
            else:
                slices = mesh_shape.device_count * (members - 1) * -(-largest // members) * item
                found.update(all_to_all=slices, all_gather=slices)
            assert count <= found["all_reduce"] + 2 * found["all_gather"]
        if plan.fetch and not is_local(plan, shape, mesh_shape):
            regular_form = regular_fetch(plan, shape, mesh_shape) if even else None
            kind = "collective_permute" if regular_form is None else regular_form.kind
            found[kind] += received(plan) - (received(reduced) if plan.reduces else 0)
    return found


def run(
    process: JaxProcess,
    explicit: ExplicitGraph,
    arrays: Mapping[str, np.ndarray],
    folder: Path,
    steps: int = 1,
) -> dict[str, np.ndarray]:
    """Run the exported program; check that its collectives are the plan's in kind and bytes."""
    graph = explicit.abstract
    module, inputs, outputs = folder / "plan.py", folder / "inputs.npz", folder / "outputs.npz"
    module.write_text(to_jax(explicit))
    np.savez(inputs, **with_values(graph, arrays))  # type: ignore[arg-type]
    found = process.run(module, inputs, outputs, steps)
    planned = planned_bytes(explicit, mesh_of(explicit.mesh_shape))
    assert found == +planned, f"{found} != {planned}"
    with np.load(outputs) as results:
        return dict(results)


@pytest.mark.parametrize(("name", "plan", "mesh_shape"), rotating(37, model_plans([LINE, GRID])))
def test_public_models_give_the_outputs_of_other_engines(
    name: str, plan: str, mesh_shape: MeshShape, jax_process: JaxProcess, tmp_path: Path
) -> None:
    model, explicit = placed_model(name, plan, mesh_shape)
    assert_close(run(jax_process, explicit, model.inputs, tmp_path), model.outputs)


# Differences by float type, as parts of the largest value.
PRECISIONS = {"bfloat16": 2**-6, "float16": 2**-9, "float64": 1e-12}
TYPED_CASES = [
    (name, dtype, plan) for dtype in PRECISIONS for name in PROGRAMS for plan in ("even", "uneven")
]


@pytest.mark.parametrize(("name", "dtype", "plan"), rotating(len(TYPED_CASES), TYPED_CASES))
def test_programs_of_other_float_types_give_the_outputs_of_torch(
    name: str, dtype: str, plan: str, jax_process: JaxProcess, tmp_path: Path
) -> None:
    model = live(name, dtype)
    found = run(jax_process, placed(model.graph, plan, LINE), model.inputs, tmp_path)
    for site, value in model.outputs.items():
        given, wide = typed(found[site], value.dtype.name), value.astype(np.float64)
        assert given.dtype == value.dtype
        most = PRECISIONS[dtype] * np.abs(wide).max()
        np.testing.assert_allclose(given.astype(np.float64), wide, rtol=0, atol=most, err_msg=site)


@pytest.mark.slow
@pytest.mark.reach
def test_every_element_type_takes_part_in_every_collective(jax_process: JaxProcess, tmp_path: Path) -> None:
    explicit, arrays, outputs = typed_collectives(LINE)
    assert_close(run(jax_process, explicit, arrays, tmp_path), outputs)


@pytest.mark.slow
def test_random_numbers_are_those_of_their_seed_and_position(jax_process: JaxProcess, tmp_path: Path) -> None:
    model = noise()
    found = run(jax_process, placed(model.graph, "1", LINE), model.inputs, tmp_path)
    assert found.keys() == model.outputs.keys()
    for name, value in model.outputs.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_programs_move_what_their_plans_say(
    seed: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    # What no sink reads would be traced, and then left out.
    graph = prune(random_program(rng))
    inputs = random_inputs(graph, rng)
    mesh_shape = (MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2))[seed % 2]
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    found = run(jax_process, explicit, inputs, tmp_path)
    assert_close(found, unpack_outputs(graph, evaluate(graph, inputs)))


def test_a_step_begins_with_what_the_one_before_carries(jax_process: JaxProcess, tmp_path: Path) -> None:
    graph = perceptron(2, carried=True)
    arrays = random_inputs(graph, np.random.default_rng(0))
    found = run(jax_process, expand(graph, split_columns(graph), PAIR), arrays, tmp_path, steps=2)
    doubled = {**arrays, "h.1.bias": 2 * arrays["h.1.bias"]}
    np.testing.assert_allclose(found["y"], reference(doubled, 2), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found["next"], 4 * arrays["h.1.bias"])


def test_a_copy_that_is_made_again_stands_twice_in_the_lowered_program(
    jax_process: JaxProcess, tmp_path: Path
) -> None:
    explicit = gathered_twice(PAIR)
    arrays = random_inputs(explicit.abstract, np.random.default_rng(0))
    found = run(jax_process, explicit, arrays, tmp_path)
    assert "all_gather(after(x, " in (tmp_path / "plan.py").read_text()
    np.testing.assert_array_equal(found["y1"], arrays["x"] + 1)


def test_a_missing_device_and_faults_of_the_input_are_reported_at_once(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    module = tmp_path / "plan.py"
    graph = perceptron(2)
    module.write_text(to_jax(expand(graph, split_columns(graph), PAIR)))
    np.savez(tmp_path / "in.npz", x=np.zeros((8, 16)))
    command = [sys.executable, str(module), "--inputs", str(tmp_path / "in.npz")]
    command += ["--outputs", str(tmp_path / "out.npz"), "--steps", "0"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=100)
    assert done.returncode != 0
    for fault in (
        "this plan runs on 2 devices, not 1",
        "at least one",
        "'x' is float64 of shape (8, 16), not float32 of shape (8, 16)",
        "'h.1.bias' is missing: float32 of shape (16,)",
    ):
        assert fault in done.stderr
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.slow
def test_a_module_runs_as_a_script_on_virtual_devices(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    module, inputs, outputs = (tmp_path / name for name in ("plan.py", "in.npz", "out.npz"))
    graph = perceptron(2)
    arrays = random_inputs(graph, np.random.default_rng(0))
    module.write_text(to_jax(expand(graph, split_columns(graph), PAIR)))
    np.savez(inputs, **arrays)  # type: ignore[arg-type]
    command = [sys.executable, module, "--inputs", inputs, "--outputs", outputs, "--cpu"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    with np.load(outputs) as found:
        np.testing.assert_allclose(found["y"], reference(arrays, 2), rtol=1e-5, atol=1e-6)
