"""Exported plans with values and state on the host: outputs are the program's, and copies are there and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.simulator import simulate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.exporters.spmd import to_jax, to_torch
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.host import HOST
from tests.cases import rotating
from tests.costmodel.offloaded import offloaded_training
from tests.costmodel.programs import random_genes
from tests.teg.exporters.jax_process import JaxProcess
from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.test_execution import assert_close
from tests.teg.sharding.looped import in_rounds

CASES = [(rounds, seed) for rounds in (1, 3) for seed in range(6)]
STEPS = 2


def drawn(rounds: int, seed: int) -> tuple[Graph, Mesh, ExplicitGraph]:
    """Draw a plan of a step that has values and state on the host."""
    graph, mesh = offloaded_training(24, state=True), load_mesh("dgx-h100").part((("gpu", 4),))
    space = PlanSpace(graph, mesh, rounds=in_rounds(rounds) if rounds > 1 else None)
    rng = np.random.default_rng(seed)
    while True:
        placements = space.placements(random_genes(rng, space))
        if any(placements.of(source).layout_of(0) == HOST for source in graph.sources):
            return graph, mesh, expand(graph, placements, space.mesh_shape)


def after_steps(graph: Graph, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the outputs of the last step, each of which begins with the state of the one before."""
    for _ in range(STEPS):
        found = evaluate(graph, inputs)
        inputs = inputs | {source.site: found[sink] for sink, source in graph.carriers.items()}
    return found


@pytest.mark.parametrize(("rounds", "seed"), rotating(3, CASES))
def test_pytorch_computes_the_program(
    rounds: int, seed: int, processes: ProcessGroup, tmp_path: Path
) -> None:
    graph, mesh, explicit = drawn(rounds, seed)
    inputs = random_inputs(graph, np.random.default_rng(seed))
    text = to_torch(explicit)
    assert "to_host" in text and "to_device" in text and "ON_HOST = (" in text
    module, given, outputs = (tmp_path / name for name in ("plan.py", "inputs.npz", "outputs.npz"))
    module.write_text(text)
    np.savez(given, **inputs)  # type: ignore[arg-type]
    counts = processes.run(module, given, None, outputs, STEPS)
    counted = simulate(explicit, mesh, dry=True, capacity_check=False)
    assert [c.received_bytes for c in counts] == (STEPS * counted.received_bytes).tolist()
    with np.load(outputs) as found:
        assert_close(dict(found), after_steps(graph, inputs))


@pytest.mark.parametrize(("rounds", "seed"), rotating(2, CASES))
def test_jax_computes_the_program(rounds: int, seed: int, jax_process: JaxProcess, tmp_path: Path) -> None:
    graph, _, explicit = drawn(rounds, seed)
    inputs = random_inputs(graph, np.random.default_rng(seed))
    text = to_jax(explicit)
    assert text.count("to_host(") > 1 and text.count("to_device(") > 1 and "stays on the devices here" in text
    module, given, outputs = (tmp_path / name for name in ("plan.py", "inputs.npz", "outputs.npz"))
    module.write_text(text)
    np.savez(given, **inputs)  # type: ignore[arg-type]
    jax_process.run(module, given, outputs, STEPS)
    with np.load(outputs) as found:
        assert_close(dict(found), after_steps(graph, inputs))
