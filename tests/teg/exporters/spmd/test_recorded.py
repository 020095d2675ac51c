"""Exported PyTorch programs, recorded for all ranks and read back in: they compute the program, and mutants do not."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tapestry.optimizer.analysis.verification import relative_errors
from tapestry.teg.double import in_double, widened
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_torch
from tapestry.teg.exporters.spmd.recorded import read_recorded
from tapestry.teg.exporters.spmd.stacks import sink_stacks
from tapestry.teg.graph import Graph
from tapestry.teg.importers import ImportFailure
from tapestry.teg.interface import pack_inputs
from tapestry.teg.pruning import prune
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy
from tests.cases import rotating
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.models import MODELS, with_values
from tests.teg.exporters.spmd.plans import placed
from tests.teg.exporters.spmd.test_module import perceptron, split_columns
from tests.teg.importers.torch.ranks.recording import RecordingProcess
from tests.teg.sharding.programs import random_placements, random_program

CLOSE = 1e-6  # numbers in the text of a program for float32 are rounded
REACH = (pytest.mark.slow, pytest.mark.reach)
PAIR, LINE, GRID = MeshShape.of(gpu=2), MeshShape.of(gpu=4), MeshShape.of(node=2, gpu=2)
BACKENDS = ("gloo", "nccl")


def errors(
    recording: RecordingProcess,
    explicit: ExplicitGraph,
    module: Path,
    reference: Graph,
    inputs: Mapping[str, np.ndarray],
    backend: str = "gloo",
) -> dict[str, float]:
    """Return how far the outputs of a module are from the reference's, on any rank."""
    ranks = recording.record(module, explicit.device_count, backend)
    program, double = read_recorded(explicit, ranks), True
    try:
        program, reference = program.in_double(), in_double(reference)
    except ValueError:
        double = False
    found = program.outputs(inputs)
    wanted = evaluate(reference, {k: widened(v) for k, v in inputs.items()} if double else inputs)
    stacks = sink_stacks(explicit)
    parts = {f"{site}@{d}": p for site in found for d, p in enumerate(stacks[site].parts_of(wanted[site]))}
    ours = {f"{site}@{d}": p for site, own in found.items() for d, p in enumerate(own)}
    return relative_errors(ours, parts)


def random_case(seed: int) -> tuple[ExplicitGraph, dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    graph = prune(random_program(rng))
    inputs = random_inputs(graph, rng)
    mesh_shape = (LINE, GRID, MeshShape.of(gpu=3))[seed % 3]
    return expand(graph, random_placements(rng, graph, mesh_shape), mesh_shape), inputs


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=REACH) for s in range(1, 40))])
def test_random_programs_come_back_in(seed: int, recording: RecordingProcess, tmp_path: Path) -> None:
    explicit, inputs = random_case(seed)
    module = tmp_path / "plan.py"
    module.write_text(to_torch(explicit))
    found = errors(recording, explicit, module, explicit.abstract, inputs, BACKENDS[seed % 2])
    assert found and max(found.values()) <= CLOSE


CASES = [
    (name, plan, (LINE, GRID)[k % 2], BACKENDS[(k + j) % 2])
    for k, name in enumerate(MODELS)
    for j, plan in enumerate(("even", "uneven", "1"))
]


@pytest.mark.parametrize(("name", "plan", "mesh_shape", "backend"), rotating(len(CASES), CASES))
def test_public_models_come_back_in(
    name: str, plan: str, mesh_shape: MeshShape, backend: str, recording: RecordingProcess, tmp_path: Path
) -> None:
    model = MODELS[name]()
    graph, inputs = model.graph, pack_inputs(model.graph, model.inputs)
    explicit = placed(graph, plan, mesh_shape)
    module = tmp_path / "plan.py"
    module.write_text(to_torch(explicit))
    found = errors(recording, explicit, module, graph, inputs, backend)
    assert found and max(found.values()) <= CLOSE


# Changes of a module, as texts to replace everywhere: the last one only adds up in another order.
CHANGES = {
    "another piece is sent": ("[(piece(to), to)]", "[(piece(source), to)]"),
    "terms are subtracted": ("torch.add", "torch.sub"),
    "a term is left out": ("for away in range(1, len(ranks)):", "for away in range(1, len(ranks) - 1):"),
    "a wrong slice": ("[:, :, 0]", "[:, :, 1]"),
    "another order": ("for away in range(1, len(ranks)):", "for away in (*range(2, len(ranks)), 1):"),
}
GPT = "tiny_gpt2_small_b1_s1024.winputs"


def unpacked(graph: Graph, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return values in the shapes that the user's program gives them."""
    shapes = {block.site: block.definition.get("logical_shape") for block in graph.sources}
    return {site: value.reshape(shapes[site] or value.shape) for site, value in inputs.items()}


@pytest.mark.slow
@pytest.mark.reach
@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_module_is_refuted_where_processes_compute_something_else(
    change: str, recording: RecordingProcess, processes: ProcessGroup, tmp_path: Path
) -> None:
    graph = MODELS[GPT]().graph
    explicit = placed(graph, "even", LINE)
    module, given, original = tmp_path / "plan.py", tmp_path / "in.npz", to_torch(explicit)
    inputs = random_inputs(graph, np.random.default_rng(0))
    np.savez(given, **with_values(graph, unpacked(graph, inputs)))  # type: ignore[arg-type]

    def by_processes(text: str) -> dict[str, np.ndarray]:
        module.write_text(text)
        processes.run(module, given, None, tmp_path / "out.npz")
        with np.load(tmp_path / "out.npz") as found:
            return dict(found)

    old, new = CHANGES[change]
    assert old in original
    wanted, found = by_processes(original), by_processes(original.replace(old, new))
    differs = max(relative_errors(found, wanted).values()) > 1e-4
    assert differs is (change != "another order")
    assert (max(errors(recording, explicit, module, graph, inputs).values()) > CLOSE) is differs


@pytest.mark.slow
def test_ranks_that_do_not_meet_are_refused(recording: RecordingProcess, tmp_path: Path) -> None:
    graph = perceptron(2)
    explicit, module = expand(graph, split_columns(graph), PAIR), tmp_path / "plan.py"
    text = to_torch(explicit)
    message = "dist.P2POp(dist.isend,"
    for new, fault in (
        ("dist.P2POp(dist.irecv if RANK else dist.isend,", "waits forever"),
        (
            "dist.P2POp(dist.isend if RANK else dist.irecv,",
            "rank 0 receives from rank 1, which does not send it",
        ),
    ):
        assert message in text
        module.write_text(text.replace(message, new))
        with pytest.raises(ImportFailure, match=fault):
            read_recorded(explicit, recording.record(module, 2))


@pytest.mark.slow
def test_a_module_of_another_plan_is_refused(recording: RecordingProcess, tmp_path: Path) -> None:
    graph = perceptron(2)
    explicit, module = expand(graph, split_columns(graph), PAIR), tmp_path / "plan.py"
    module.write_text(to_torch(explicit))
    ranks = recording.record(module, 2)
    others = split_columns(graph).blocks | {"x": Placement(Strategy((Split(("gpu.0",)), WHOLE)))}
    with pytest.raises(
        ImportFailure, match=r"source 'x' is float32\[0:8, 0:16\] on rank 0, not float32\[0:4, 0:16\]"
    ):
        read_recorded(expand(graph, Placements(others), PAIR), ranks)
    written = module.stat().st_mtime_ns
    module.write_text(
        module.read_text().replace('OUTPUTS = {"y"', 'OUTPUTS = {"z"').replace('return {"y"', 'return {"z"')
    )
    os.utime(module, ns=(written, written))  # cached bytecode of the first text would fit
    with pytest.raises(ImportFailure, match=r"output 'y' is missing on rank 0"):
        read_recorded(explicit, recording.record(module, 2))
