"""Tests that standard configurations of training are legal, compute the step's values, and save what they should."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.setting import find_models
from benchmarks.training import against, costs_by_hand
from benchmarks.training_plans import (
    FULL,
    Configuration,
    ModelSizes,
    placed,
    program_of,
    programs,
    standard,
)
from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan, Result, verify_plan
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.rewrites import RULES, saturate
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.graph import Graph
from tapestry.teg.importers import from_onnx
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tests.optimizer.searches import search
from tests.teg.sharding.looped import training

FOUR = load_mesh("dgx-a100").part((("gpu", 4),))
SHAPE = MeshShape(FOUR.axis_sizes)
SIZES = ModelSizes(2, (7, 6), (64, 31))
CONFIGURATIONS = [
    Configuration(2, 2),
    Configuration(2, 2, sequence=True, states=1),
    Configuration(2, 2, sequence=True, states=3, recompute=FULL),
    Configuration(1, 4, sequence=True, states=3),
    Configuration(2, 2, states=2, rounds=2),
    Configuration(2, pipeline=2),
    Configuration(1, 2, sequence=True, states=1, pipeline=2, recompute=FULL),
]


@pytest.fixture(scope="module")
def step() -> Graph:
    graph = from_onnx(find_models(["tiny_train_gpt2_small_b8_s1024_adam"])[0])
    return saturate(graph, [rule for rule in RULES if rule.saturating]).graph


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=lambda c: c.name)
def test_a_configuration_is_legal_and_computes_the_step(step: Graph, configuration: Configuration) -> None:
    graph = program_of(programs(step, FOUR), configuration)
    assert_computes(step, graph, placed(graph, FOUR, SIZES, configuration))


def assert_computes(step: Graph, graph: Graph, placements: Placements) -> None:
    """Check that a plan is legal, and computes what the step does."""
    assert check_placements(graph, placements, SHAPE) == []
    inputs = random_inputs(step, np.random.default_rng(0))
    plan = Plan(graph, placements, (), PlanCosts(FOUR).costs([(graph, placements)])[0], True)
    found = verify_plan(plan, FOUR, inputs=inputs, execute=True, reference=evaluate(step, inputs))
    assert found.ok, found


def test_rounds_are_over_the_batch(step: Graph) -> None:
    graph, sizes = training(96, "float32"), ModelSizes(96, (), (4,))
    placements = placed(graph, FOUR, sizes, Configuration(2, 2, rounds=4))
    assert placements.rounds is not None and placements.rounds.count == 4
    assert_computes(graph, graph, placements)
    placements = placed(graph, FOUR, sizes, Configuration(1, 2, pipeline=2, rounds=4))
    assert placements.stages is not None and {p.part for p in placements.blocks.values()} == {0, 1}
    assert_computes(graph, graph, placements)
    # Constants of a program that was recorded are as long as its batch: they are cut with it.
    placements = placed(step, FOUR, SIZES, Configuration(2, 2, rounds=2))
    assert placements.rounds is not None and placements.rounds.count == 2
    assert_computes(step, step, placements)


def test_sharded_states_and_recomputation_save_memory(step: Graph) -> None:
    chosen = [Configuration(2, 2, states=s) for s in (0, 1, 3)] + [Configuration(2, 2, recompute=FULL)]
    none, first, third, full = (
        cost["peak_memory_bytes"] for cost in costs_by_hand(step, FOUR, SIZES, chosen)
    )
    assert third <= first < none and full < none


def test_gradients_that_are_reduced_in_every_round_save_memory(step: Graph) -> None:
    chosen = [Configuration(2, 2, states=s, rounds=2) for s in (1, 2)]
    first, second = (cost["peak_memory_bytes"] for cost in costs_by_hand(step, FOUR, SIZES, chosen))
    assert second < first


def test_degrees_must_multiply_up_to_the_devices(step: Graph) -> None:
    with pytest.raises(ValueError, match="data 2 is not for"):
        placed(step, FOUR, SIZES, Configuration(2))


def test_standard_configurations_differ() -> None:
    assert len({c.name for c in standard(8)}) == 16


def test_a_configuration_is_held_by_a_plan_that_is_as_good(step: Graph) -> None:
    result: Result = search(step, mesh=FOUR, evaluations=200, objectives=("time_s", "peak_memory_bytes"))
    plan = result.frontier[0]
    assert against(plan.cost, result) == {"nearest": plan.id, "ratio": 1.0, "is_held": True}
    better = {name: value / 2 for name, value in plan.cost.items()}
    assert not against(better, result)["is_held"]
