"""Exported programs on real processes: values are the reference's, and each rank receives the bytes of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tapestry.hardware.simulator import simulate
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_torch
from tapestry.teg.interface import unpack_outputs
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tapestry.teg.tensor_files import typed
from tests.cases import rotating
from tests.teg.exporters.spmd.element_types import typed_collectives
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.models import noise, with_values
from tests.teg.exporters.spmd.plans import has_unequal_parts, mesh_of, model_plans, placed, placed_model
from tests.teg.sharding.programs import random_placements, random_program

LINE, GRID = MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2)


def run(
    processes: ProcessGroup,
    explicit: ExplicitGraph,
    arrays: Mapping[str, np.ndarray],
    folder: Path,
    steps: int = 1,
    most: float = 1.0,
) -> dict[str, np.ndarray]:
    """Run the exported program on real processes; check what each rank received and held by what the plan says.

    A rank holds at most `most` times the plan's peak, without the terms that no plan counts.
    """
    graph = explicit.abstract
    module, inputs, outputs = folder / "plan.py", folder / "inputs.npz", folder / "outputs.npz"
    module.write_text(to_torch(explicit))
    np.savez(inputs, **with_values(graph, arrays))  # type: ignore[arg-type]
    counts = processes.run(module, inputs, None, outputs, steps)
    counted = simulate(explicit, mesh_of(explicit.mesh_shape), dry=True, capacity_check=False)
    assert [c.received_bytes for c in counts] == (steps * counted.received_bytes).tolist()
    for rank, predicted in zip(counts, counted.peak_memory_bytes.tolist(), strict=True):
        # Inputs of later steps wait in memory for them.
        assert steps > 1 or rank.counted_bytes <= most * predicted
    with np.load(outputs) as found:
        return dict(found)


def assert_close(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    assert found.keys() >= wanted.keys()
    for name, value in wanted.items():
        given = typed(found[name], value.dtype.name)
        assert given.dtype == value.dtype
        wide = np.complex128 if value.dtype.kind == "c" else np.float64
        np.testing.assert_allclose(given.astype(wide), value.astype(wide), rtol=2e-4, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(("name", "plan", "mesh_shape"), rotating(13, model_plans([LINE, GRID])))
def test_public_models_give_the_outputs_of_other_engines(
    name: str, plan: str, mesh_shape: MeshShape, processes: ProcessGroup, tmp_path: Path
) -> None:
    model, explicit = placed_model(name, plan, mesh_shape)
    # Elements of a list are held until all are read, and inputs until their views are.
    assert_close(run(processes, explicit, model.inputs, tmp_path, most=1.12), model.outputs)


@pytest.mark.slow
def test_every_element_type_takes_part_in_every_collective(processes: ProcessGroup, tmp_path: Path) -> None:
    explicit, arrays, outputs = typed_collectives(LINE)
    # Elements that gloo cannot add up are converted, whole tensors of them: their copies are larger than the parts.
    assert_close(run(processes, explicit, arrays, tmp_path, most=1.5), outputs)


@pytest.mark.slow
def test_random_numbers_are_those_of_their_seed_and_position(processes: ProcessGroup, tmp_path: Path) -> None:
    model = noise()
    found = run(processes, placed(model.graph, "1", LINE), model.inputs, tmp_path, most=1.12)
    assert found.keys() == model.outputs.keys()
    for name, value in model.outputs.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.slow
def test_ranks_without_a_part_of_the_state_take_part_in_later_steps(
    processes: ProcessGroup, tmp_path: Path
) -> None:
    build = GraphBuilder("counter")
    state = build.source("state", (5, 3), "float32", role="optimizer_state")
    dims, plane = (("row", 5), ("column", 3)), ("row", "column")
    expression = ("add", ("input", 0), ("input", 0))
    (doubled,) = build.apply(
        "cell", [state], site="doubled", expr=expression, labels=(plane,), dims=dims, dtype="float32"
    )
    build.sink(doubled, site="next", carries="state")
    placed_at = {"state": Placement(parse_strategy("(gpu.0*gpu.1, -)"))}
    explicit = expand(build.build(), Placements(placed_at), LINE)
    assert has_unequal_parts(explicit)
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    found = run(processes, explicit, {"state": values}, tmp_path, steps=3)
    np.testing.assert_array_equal(found["next"], 8 * values)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(25))
def test_random_programs_move_what_their_plans_say(
    seed: int, processes: ProcessGroup, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    graph = random_program(rng)
    inputs = random_inputs(graph, rng)
    mesh_shape = (LINE, GRID)[seed % 2]
    explicit = expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape)
    found = run(processes, explicit, inputs, tmp_path)
    assert_close(found, unpack_outputs(graph, evaluate(graph, inputs)))
