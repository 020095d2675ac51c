"""Exported plans that are pipelines: what stages send each other is received, and gives the program's outputs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_jax, to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.interface import pack_inputs, unpack_outputs
from tapestry.teg.sharding.expand import CopyStep, ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.rounds import parse_rounds
from tapestry.teg.sharding.stages import SCHEDULES, Stages
from tapestry.teg.sharding.transfers import fetch_transfers
from tapestry.teg.sharding.turns import ScheduleError
from tests.cases import rotating
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.models import MODELS, TinyModel, with_values
from tests.teg.exporters.spmd.test_execution import assert_close
from tests.teg.exporters.spmd.test_recorded import CLOSE, errors
from tests.teg.importers.torch.ranks.recording import RecordingProcess
from tests.teg.sharding.looped import in_rounds, training
from tests.teg.sharding.pipelined import chain as chain_of_layers
from tests.teg.sharding.pipelined import in_parts, random_pipelined

Axes = tuple[tuple[str, int], ...]

# Meshes of four devices, the devices of a stage, and how many stages there are.
PLACES: tuple[tuple[str, Axes, str, int], ...] = (
    ("dgx-h100", (("gpu", 4),), "gpu:2", 2),
    ("dgx-h100", (("gpu", 4),), "gpu:1", 4),
    ("2x-dgx-h100", (("node", 2), ("gpu", 2)), "node:1,gpu:2", 2),
    ("2x-dgx-h100", (("node", 2), ("gpu", 2)), "node:2,gpu:1", 2),
)
CASES = [
    ("live/mlp", "5 x input[0]"),
    ("live/training_step", "3 x words_1[1]"),
    ("tiny/bert_large_b8_s512.winputs", "2 x input_ids[0]"),
    ("live/recurrent", ""),
]
PLANS = [(name, rounds, seed) for name, rounds in CASES for seed in range(4)]


def pipelined(name: str, rounds: str, seed: int) -> tuple[TinyModel, ExplicitGraph]:
    """Return a model, and a random plan of it with stages; each schedule comes with each place."""
    model = MODELS[name]()
    _, axes, devices, stage_count = PLACES[seed % 4]
    stages = Stages(stage_count, SCHEDULES[(seed + len(name)) % len(SCHEDULES)])
    return model, drawn_plan(model.graph, axes, devices, stages, rounds, seed)


def drawn_plan(
    graph: Graph, axes: Axes, devices: str, stages: Stages, rounds: str, seed: int
) -> ExplicitGraph:
    """Draw a plan that has a schedule; of large programs few have any but `gpipe`."""
    rng, mesh_shape = np.random.default_rng(seed), MeshShape(axes)
    for tried in count():
        schedule = stages.schedule if tried < 5 else "gpipe"
        own = Stages(stages.count, schedule)
        placements = random_pipelined(rng, graph, mesh_shape, devices, own, parse_rounds(rounds))
        try:
            return expand(graph, placements, mesh_shape)
        except ScheduleError:
            continue
    raise AssertionError


def run(
    processes: ProcessGroup,
    explicit: ExplicitGraph,
    inputs: dict[str, np.ndarray],
    seed: int,
    folder: Path,
    steps: int = 1,
) -> dict[str, np.ndarray]:
    """Run the exported program; each rank receives the bytes that the simulator says."""
    module, given, outputs = folder / "plan.py", folder / "inputs.npz", folder / "outputs.npz"
    module.write_text(to_torch(explicit))
    np.savez(given, **with_values(explicit.abstract, inputs))  # type: ignore[arg-type]
    counts = processes.run(module, given, None, outputs, steps)
    mesh, axes, *_ = PLACES[seed % 4]
    counted = simulate(explicit, load_mesh(mesh).part(axes), dry=True, capacity_check=False)
    assert [c.received_bytes for c in counts] == (steps * counted.received_bytes).tolist()
    with np.load(outputs) as found:
        return dict(found)


@pytest.mark.parametrize(("name", "rounds", "seed"), rotating(8, PLANS))
def test_pytorch_gives_what_other_engines_gave(
    name: str, rounds: str, seed: int, processes: ProcessGroup, tmp_path: Path
) -> None:
    model, explicit = pipelined(name, rounds, seed)
    assert_close(run(processes, explicit, dict(model.inputs), seed, tmp_path), model.outputs)


# JAX compiles each turn by itself.
DRIVEN = [plan for plan in PLANS if plan[0] in ("live/mlp", "live/training_step")]


@pytest.mark.parametrize(("name", "rounds", "seed"), rotating(4, DRIVEN))
def test_jax_gives_what_other_engines_gave(
    name: str, rounds: str, seed: int, jax_process: JaxProcess, tmp_path: Path
) -> None:
    model, explicit = pipelined(name, rounds, seed)
    assert_close(drive(jax_process, explicit, dict(model.inputs), seed, tmp_path), model.outputs)


def drive(
    jax_process: JaxProcess,
    explicit: ExplicitGraph,
    inputs: dict[str, np.ndarray],
    seed: int,
    folder: Path,
    steps: int = 1,
) -> dict[str, np.ndarray]:
    """Run the exported program in one process; it hands over the bytes that copies between stages have by the plan."""
    module, given, outputs = folder / "plan.py", folder / "inputs.npz", folder / "outputs.npz"
    module.write_text(to_jax(explicit))
    np.savez(given, **with_values(explicit.abstract, inputs))  # type: ignore[arg-type]
    moved = jax_process.drive(module, given, outputs, steps)
    assert moved == steps * sum(sent_bytes(explicit, copy) for slot in explicit.slots for copy in slot.issued)
    with np.load(outputs) as found:
        return dict(found)


def sent_bytes(explicit: ExplicitGraph, copy: CopyStep) -> int:
    """Count the bytes that a copy between stages moves, from its transfers; one within a stage is compiled."""
    if copy.plan.route is None:
        return 0
    buffer = explicit.buffers[copy.result]
    transfers = fetch_transfers(copy.plan, buffer.shape, explicit.mesh_shape)
    return sum(t.end - t.start for t in transfers) * item_bytes(buffer.dtype)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_state_stays_on_its_stage_from_step_to_step(
    seed: int, processes: ProcessGroup, jax_process: JaxProcess, tmp_path: Path
) -> None:
    graph = training(24, "float32", state=True)
    _, axes, devices, stage_count = PLACES[seed]
    stages = Stages(stage_count, SCHEDULES[(seed + 1) % len(SCHEDULES)])
    explicit = drawn_plan(graph, axes, devices, stages, str(in_rounds(4)), seed)
    inputs = random_inputs(graph, np.random.default_rng(seed))
    values, steps = dict(inputs), 2
    for _ in range(steps):
        wanted = unpack_outputs(graph, evaluate(graph, values))
        values |= {
            source.site: wanted[sink].reshape(values[source.site].shape)
            for sink, source in graph.carriers.items()
        }
    assert_close(run(processes, explicit, inputs, seed, tmp_path, steps), wanted)
    assert_close(drive(jax_process, explicit, inputs, seed, tmp_path, steps), wanted)


@pytest.mark.parametrize(("name", "rounds", "seed"), rotating(6, PLANS[:12]))
def test_modules_come_back_in(
    name: str, rounds: str, seed: int, recording: RecordingProcess, tmp_path: Path
) -> None:
    model, explicit = pipelined(name, rounds, seed)
    module = tmp_path / "plan.py"
    module.write_text(to_torch(explicit))
    found = errors(recording, explicit, module, model.graph, pack_inputs(model.graph, model.inputs))
    assert found and max(found.values()) <= CLOSE


def test_a_message_for_another_rank_is_found(recording: RecordingProcess, tmp_path: Path) -> None:
    graph = chain_of_layers(2, 8)
    placements = in_parts(graph, {0: 0, 1: 1}, Stages(2), 2, "gpu:1")
    explicit = expand(graph, placements, MeshShape.of(gpu=2))
    inputs = random_inputs(graph, np.random.default_rng(0))
    text, module = to_torch(explicit), tmp_path / "plan.py"
    module.write_text(text)
    assert max(errors(recording, explicit, module, graph, inputs).values()) <= CLOSE
    assert text.count("send(f0_round_1") == 1
    module.write_text(text.replace("send(f0_round_1", "send(f0_round_0"))
    assert max(errors(recording, explicit, module, graph, inputs).values()) > CLOSE


def test_the_text_says_what_each_stage_does() -> None:
    graph = chain_of_layers(4, 8)
    placements = in_parts(graph, {0: 0, 1: 0, 2: 1, 3: 1}, Stages(2), 4, "node:2,gpu:1")
    explicit = expand(graph, replace(placements), MeshShape.of(node=2, gpu=2))
    text = to_torch(explicit)
    assert "chain on 4 devices, in 2 stages of node=2, gpu=1." in text
    assert "Of the mesh, these are devices 0, 2, 1, 3." in text
    assert "def stage_0(w):" in text and "def stage_1(w):" in text and "(stage_0, stage_1)[STAGE](w)" in text
    assert "torchrun --nproc-per-node 4" in text
