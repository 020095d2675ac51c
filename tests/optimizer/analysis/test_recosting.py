"""Tests of plans costed again: the costs of a search, and feasibility by the bounds of its options."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan, RunOptions, canonicalize
from tapestry.optimizer.analysis.recosting import recost
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.text import parse_strategy
from tests.costmodel.programs import leftovers

MESH = load_mesh("dgx-h100")


def older(*sites: str) -> Plan:
    """Build a plan of an older model, with a strategy of its own for these sites of a training step."""
    blocks = {site: Placement(parse_strategy("(gpu.0, -)")) for site in sites}
    return Plan(canonicalize(leftovers()), Placements(blocks), (), {"time_s": 1.0}, True, cost_model=1)


def test_a_plan_is_costed_by_this_model_in_all_that_its_run_needs() -> None:
    options = RunOptions(objectives=("time_s", "time_s + 2*energy_j"), evaluations=1)
    (plan,) = recost(leftovers(), [older()], MESH, options)
    assert plan.cost["time_s + 2*energy_j"] == pytest.approx(plan.cost["time_s"] + 2 * plan.cost["energy_j"])
    assert (plan.cost_model, plan.feasible) == (COST_MODEL_VERSION, True)


def test_a_strategy_of_a_sink_that_carries_state_is_not_used() -> None:
    """Check that placements of older models, whose sinks had a place of their own, are still read."""
    options = RunOptions(evaluations=1)
    plain, placed = recost(leftovers(), [older("step"), older("step", "next")], MESH, options)
    assert placed.cost == plain.cost
    assert replace(placed, placements=plain.placements) == plain


@pytest.mark.parametrize(("bound", "feasible"), [("traffic_bytes<=0", False), ("time_s<=100%", True)])
def test_a_plan_is_feasible_if_it_keeps_the_bounds_that_are_not_relative(bound: str, feasible: bool) -> None:
    options = RunOptions(constraints=(bound,), evaluations=1)
    (plan,) = recost(leftovers(), [older("step")], MESH, options)
    assert plan.cost["traffic_bytes"] > 0
    assert plan.feasible is feasible
