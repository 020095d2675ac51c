"""The promises of every objective: it explains itself, is computed from what is counted, and grows with it."""

import numpy as np
import pytest

from tapestry.costmodel.expressions import names_in
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objective import QUANTITIES, Objective
from tapestry.costmodel.objectives import NAMES, checked_objective
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.goal import objective_values
from tapestry.optimizer.archive.report import costs_of, goal_of

KNOWN = KnownObjectives()
MESH = load_mesh("dgx-h100")


@pytest.fixture(params=KNOWN.by_name.values(), ids=lambda o: o.name)
def objective(request: pytest.FixtureRequest) -> Objective:
    found: Objective = request.param
    return found


def test_it_explains_itself(objective: Objective) -> None:
    assert objective.title
    assert objective.description
    assert objective.direction == "minimize"
    assert KNOWN.named(objective.name) is objective


def test_its_expression_names_what_is_known(objective: Objective) -> None:
    assert set(names_in(objective.term)) <= {*QUANTITIES, *NAMES}
    if objective.name not in NAMES:
        assert checked_objective(objective) is objective


def test_the_search_computes_what_is_reported(objective: Objective, rng: np.random.Generator) -> None:
    if KNOWN.missing(objective, MESH.device) is not None:
        pytest.skip("the device lacks a figure")
    goal, value = goal_of([objective], (), MESH, 0.005), np.zeros(1)
    for _ in range(10):
        raw = rng.integers(0, 10**12, len(KNOWN.columns))
        objective_values(goal, raw, value)
        assert value[0] == pytest.approx(costs_of(raw, MESH)[objective.name], rel=1e-12)
        more = raw + rng.integers(0, 10**9, len(raw))
        objective_values(goal, more, grown := np.zeros(1))
        assert grown[0] >= value[0] * (1 - 1e-12), "it falls as costs rise"
