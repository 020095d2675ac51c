"""Tests of two training steps: on every public training graph and under any plan, they move twice the bytes of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tapestry.costmodel.kernel_arrays import PEAK, TIME, TRAFFIC
from tapestry.costmodel.plan_space import PlanSpace
from tapestry.hardware.simulator import simulate_steps
from tapestry.optimizer.placement.search_space import search_space
from tapestry.optimizer.placement.seeds import seed_plans
from tapestry.teg.evaluate import random_inputs
from tapestry.teg.importers.files import read_program
from tapestry.teg.sharding.expand import expand
from tests.cases import rotating
from tests.end_to_end.twins import mesh_of, random_plans
from tests.teg.importers.models import GRAPHS

FORMATS = (".onnx", ".json.gz", ".stablehlo.mlir.gz")
PUBLIC = sorted(
    path for path in GRAPHS.rglob("*train*") if path.name.endswith(FORMATS) and "partitioned" not in path.name
)
CASES = [pytest.param(path, ("4", "2x4")[k % 2], id=path.name) for k, path in enumerate(PUBLIC)]


def test_there_are_training_graphs_of_every_front_end() -> None:
    assert {path.name.partition(".")[2] for path in PUBLIC} >= {"onnx", "json.gz", "stablehlo.mlir.gz"}
    assert len(PUBLIC) >= 9


@pytest.mark.parametrize(("path", "mesh"), rotating(10, CASES))
def test_two_steps_move_twice_the_bytes_of_one(path: Path, mesh: str) -> None:
    """Check plans of propagation, the fastest and the one with the least memory of them, and plans drawn at random.

    A small program runs with numbers once: the second step begins with what the devices hold after the first.
    """
    graph = read_program(path)
    persistent = {s.site for s in graph.sources if s.definition["role"] in ("parameter", "optimizer_state")}
    carried = {source.site for source in graph.carriers.values()}
    # The inverse problem has gradients and no update, and one parameter of Llama's is a table of positions.
    assert len(persistent - carried) <= 1
    space = PlanSpace(graph, mesh_of(mesh))
    found = []
    for strategies in seed_plans(space, search_space(space)):
        genes = space.abstract_genes()
        genes.strategies[:] = strategies
        found.append((space.evaluate(genes), genes))
    best = (min(found, key=lambda plan: plan[0][column])[1] for column in (TIME, PEAK))
    plans = (*random_plans(space, 2, seed=7), *best)
    is_small = sum(tensor.type.size_bytes for tensor in graph.tensors.values()) < 2**22
    inputs = random_inputs(graph, np.random.default_rng(0)) if is_small else None
    for genes in plans:
        program = expand(graph, space.placements(genes), space.mesh_shape)
        runs = list(
            simulate_steps(program, space.mesh, inputs, steps=2, dry=inputs is None, capacity_check=False)
        )
        inputs = None
        assert sum(run.traffic_bytes for run in runs) == 2 * space.evaluate(genes)[TRAFFIC]
        assert runs[1].makespan_ticks == runs[0].makespan_ticks
