"""Exported programs on real processes: values are the reference's, and each rank receives the bytes of the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from benchmarks.conformance_cases import recorded
from benchmarks.torch_programs import live
from tapestry.hardware.catalog import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.optimizer.placement.propagation import propagate_placements
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.importers.files import read_program
from tapestry.teg.interface import unpack_outputs
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.sharding.programs import random_placements, random_program

LINE, GRID = MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2)


def split_sources(graph: Graph, role: str, dim: int, mesh_shape: MeshShape) -> Placements:
    """Split a dimension of all sources of a role over the whole mesh, and let the rest follow."""
    placements = Placements({})
    axes = tuple(s.name for s in mesh_shape.sub_axes)
    for block in graph.sources:
        rank = len(graph.tensors[block.outputs[0]].shape)
        if block.definition["role"] == role and rank > max(dim, 1) and block.signature is not None:
            splits = [WHOLE] * rank
            splits[dim] = Split(axes)
            placements.blocks[block.site] = Placement(Strategy(tuple(splits)))  # type: ignore[index]
    sites = [b.site for b in graph.blocks if not b.is_view]
    return propagate_placements(graph, placements, sites, mesh_shape)


def placed(graph: Graph, plan: str, mesh_shape: MeshShape) -> ExplicitGraph:
    """Expand a plan by name: `data` and `rows` split inputs or weights, a number draws every placement."""
    if plan.isdecimal():
        placements = random_placements(np.random.default_rng(int(plan)), graph, mesh_shape)
    else:
        role, dim = {"data": ("activation", 0), "space": ("activation", 2), "rows": ("parameter", 0)}[plan]
        placements = split_sources(graph, role, dim, mesh_shape)
    return expand(graph, placements, mesh_shape)


def run(
    processes: ProcessGroup,
    explicit: ExplicitGraph,
    arrays: Mapping[str, np.ndarray],
    folder: Path,
    steps: int = 1,
    most: float = np.inf,
) -> dict[str, np.ndarray]:
    """Run the exported program on real processes; check what each rank received and held by what the plan says.

    With everything that no plan counts, a rank holds at most `most` times the plan's peak.
    """
    graph = explicit.abstract
    module, inputs, outputs = folder / "plan.py", folder / "inputs.npz", folder / "outputs.npz"
    module.write_text(to_torch(explicit))
    given = dict(arrays)
    for block in graph.sources:
        tensor = block.outputs[0]
        if tensor in graph.data and block.site not in given:
            shape = block.definition.get("logical_shape", graph.tensors[tensor].shape)
            given[block.site] = graph.data[tensor].reshape(shape)
    np.savez(inputs, **given)  # type: ignore[arg-type]
    counts = processes.run(module, inputs, None, outputs, steps)
    mesh = load_mesh("dgx-h100" if explicit.mesh_shape == LINE else "2x-dgx-h100")
    counted = simulate(explicit, mesh.part(explicit.mesh_shape.axes), dry=True, capacity_check=False)
    assert [c.received_bytes for c in counts] == (steps * counted.received_bytes).tolist()
    for rank, predicted in zip(counts, counted.peak_memory_bytes.tolist(), strict=True):
        # Inputs of later steps wait in memory for them.
        assert steps > 1 or rank.counted_bytes <= predicted
        assert rank.peak_bytes <= most * predicted
    with np.load(outputs) as found:
        return dict(found)


def assert_close(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> None:
    assert found.keys() >= wanted.keys()
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_allclose(found[name], value, rtol=2e-4, atol=2e-5, err_msg=name)


ONNX = (
    ("tiny_gpt2_small_b1_s1024.winputs", "rows", LINE),
    ("tiny_gpt2_small_b1_s1024.winputs", "0", LINE),
    ("tiny_gpt2_small_b1_s1024.winputs", "1", GRID),
    ("tiny_llama2_7b_1layer_b1_s2048.winputs", "rows", LINE),
    ("tiny_llama2_7b_1layer_b1_s2048.winputs", "3", LINE),
    ("tiny_resnet50_b16_224.winputs", "space", LINE),
    ("tiny_resnet50_b16_224.winputs", "data", LINE),
    ("tiny_resnet50_b16_224.winputs", "4", LINE),
    ("tiny_train_mlp_784_4x4096_b1024_sgd", "rows", LINE),
    ("tiny_train_mlp_784_4x4096_b1024_sgd", "5", LINE),
    ("tiny_train_gpt2_small_b8_s1024_adam", "data", LINE),
    ("tiny_train_gpt2_small_b8_s1024_adam", "rows", LINE),
    ("tiny_train_gpt2_small_b8_s1024_adam", "6", LINE),
    ("tiny_train_heat_inverse_20steps_grads", "7", LINE),
)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "plan", "mesh_shape"), ONNX)
def test_public_models_give_the_recorded_outputs(
    model: str, plan: str, mesh_shape: MeshShape, processes: ProcessGroup, tmp_path: Path, root: Path
) -> None:
    folder = root / "tests" / "data" / "graphs"
    graph = read_program(folder / f"{model}.onnx")
    inputs, outputs = recorded(folder / f"{model}.npz")
    found = run(processes, placed(graph, plan, mesh_shape), inputs, tmp_path, most=1.1)
    assert_close(found, outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mlp", "convolution", "transformer", "recurrent"])
@pytest.mark.parametrize("plan", ["data", "rows", "8"])
def test_pytorch_programs_give_pytorchs_values(
    name: str, plan: str, processes: ProcessGroup, tmp_path: Path
) -> None:
    program = live(name)
    found = run(processes, placed(program.graph, plan, LINE), program.inputs, tmp_path, most=1.1)
    assert_close(found, program.outputs)


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
