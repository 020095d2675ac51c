"""Tests of what cannot be done with plans that have stages: it is refused by name, and nothing wrong is made."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tapestry.hardware.processes import DeviceProcesses, run_on_processes
from tapestry.hardware.simulator.failure import Failure
from tapestry.hardware.simulator.loss import simulate_loss
from tapestry.optimizer import Plan
from tapestry.service.plan_graphs import explicit_portions
from tapestry.service.tensor_moves import HeldTensor, moves_to, places_of
from tapestry.teg.exporters.tables.build import sharding_table
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.explicit_document import explicit_document
from tapestry.teg.sharding.explicit_parts import GraphPart
from tapestry.teg.sharding.materialize import materialize
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.recover import recover
from tapestry.teg.sharding.stages import Stages
from tests.hardware.simulator.programs import mesh_of
from tests.service.programs import two_layers
from tests.teg.sharding.pipelined import random_pipelined

SHAPE = MeshShape.of(gpu=4)
MESH, GRAPH = mesh_of(SHAPE), two_layers()
PLACED = random_pipelined(np.random.default_rng(5), GRAPH, SHAPE, "gpu:2", Stages(2))
PROGRAM = expand(GRAPH, PLACED, SHAPE)
PLAN = Plan(GRAPH, PLACED, (), {}, True)


def on_processes(program: ExplicitGraph) -> None:
    with DeviceProcesses() as processes:
        run_on_processes(processes, program, MESH)


REFUSED: dict[str, Callable[[], object]] = {
    "a table of shardings": lambda: sharding_table(GRAPH, GRAPH, PLACED, SHAPE),
    "nodes": lambda: materialize(PROGRAM),
    "a document of nodes": lambda: explicit_document(PROGRAM, GraphPart()),
    "a document of a stored plan": lambda: explicit_portions(PLAN, MESH, GraphPart()),
    "recovery of the program": lambda: recover(PROGRAM),
    "real processes": lambda: on_processes(PROGRAM),
    "a loss of devices": lambda: simulate_loss(PROGRAM, MESH, Failure((1,), 0.5), dry=True),
    "a place of a stored tensor": lambda: places_of(PLAN, MESH, ["x"]),
    "a move of a stored tensor": lambda: moves_to(PLAN, MESH, GRAPH, {"x": HeldTensor("t", None)}),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_stages_refuses_plans_that_do(refused: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"does not support plans with stages \(pipelines\) yet"):
        refused()
