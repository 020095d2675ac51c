"""Tests of every mesh of the catalog: plans are found, cost what every objective says, and run as predicted."""

import numpy as np
import pytest

from tapestry.costmodel.objectives import OBJECTIVES
from tapestry.hardware import load_mesh, mesh_names
from tapestry.hardware.timing import TICKS_PER_S
from tapestry.optimizer import Budget
from tapestry.optimizer.analysis.verification import verify_plan
from tapestry.optimizer.run.search import search
from tapestry.teg.evaluate import evaluate, random_inputs
from tests.cases import one_in
from tests.costmodel.programs import layers

PROGRAM = layers(1)
INPUTS = random_inputs(PROGRAM, np.random.default_rng(0))
EXPECTED = evaluate(PROGRAM, INPUTS)


LARGE = 8
EVERY = [
    pytest.param(name, marks=[pytest.mark.slow] if load_mesh(name).device_count > LARGE else [])
    for name in mesh_names()
]


@pytest.mark.parametrize("name", one_in(3, EVERY))
def test_plans_for_a_mesh_are_proven_and_run_as_predicted(name: str) -> None:
    mesh, wanted = load_mesh(name), [objective.name for objective in OBJECTIVES]

    found = search(PROGRAM, mesh, wanted, budget=Budget(evaluations=200), islands=1)

    widest = max(found.frontier, key=lambda plan: plan.cost["compute_flops"] + plan.cost["traffic_bytes"])
    for plan in (min(found.frontier, key=lambda plan: plan.cost["peak_memory_bytes"]), widest):
        assert set(wanted) <= set(plan.cost)
        checked = verify_plan(plan, mesh, inputs=INPUTS, execute=True, reference=EXPECTED)
        assert checked.issues == ()
        assert checked.memory.predicted == checked.memory.counted
        assert checked.traffic.predicted == checked.traffic.counted
        assert checked.execution.makespan_ticks == pytest.approx(plan.cost["time_s"] * TICKS_PER_S, rel=0.01)
        assert max(checked.max_error.values()) < 1e-5
