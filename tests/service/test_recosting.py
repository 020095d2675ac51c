"""Tests of stored plans that an older cost model has costed: costed again, or named where that is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tapestry.costmodel.reference import reference_cost
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import load_mesh
from tapestry.optimizer.archive.report import costs_of
from tapestry.rewrites import Move
from tapestry.service.recosting import comparable_costs, model_notes, recost_plans
from tapestry.service.store import Store, StoredPlan
from tests.service.databases import file_with_tables
from tests.service.programs import finished_run, two_layers

OLDER = f"costed by an older model (1; this is {COST_MODEL_VERSION})"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(file_with_tables(tmp_path / "runs.db"))
    yield opened
    opened.close()


def run_of(
    store: Store, *cost_models: int, unknown_rule: bool = False, bound: str = "peak_memory_bytes<=1GiB"
) -> tuple[str, tuple[StoredPlan, ...]]:
    """Store a run of two plans with these versions of their costs; return its id and its frontier."""
    finished = finished_run(two_layers())
    finished = replace(finished, options=replace(finished.options, constraints=(bound,)))
    plans = [replace(p, cost_model=v) for p, v in zip(finished.result.frontier, cost_models, strict=True)]
    if unknown_rule:
        plans[0] = replace(plans[0], moves=(Move("gone_rule", "y"), *plans[0].moves))
    run_id = store.runs.save_finished(
        replace(finished, result=replace(finished.result, frontier=tuple(plans)))
    )
    return run_id, store.runs.frontier(run_id)


def test_only_costs_of_another_model_are_computed_again(store: Store) -> None:
    run_id, (old, new) = run_of(store, 1, COST_MODEL_VERSION)
    again = recost_plans(store, run_id, (old, new))
    assert list(again.plans) == [old.id] and again.failures == {}
    plan, mesh = again.plans[old.id], load_mesh("dgx-h100")
    tally = reference_cost(plan.graph, plan.placements, mesh, "bf16")
    assert plan.cost == costs_of(tally.vector(), mesh)
    assert (plan.cost_model, plan.feasible) == (COST_MODEL_VERSION, True)


def test_runs_of_this_model_are_compared_as_they_are_stored(store: Store) -> None:
    run_id, frontier = run_of(store, COST_MODEL_VERSION, COST_MODEL_VERSION)
    found = comparable_costs(store, {run_id: frontier})
    assert (found.costs, found.notes) == ({run_id: [plan.cost for plan in frontier]}, [])
    assert found.times == {run_id: [None, None]}, "these plans are made up, without times"
    assert model_notes({run_id: frontier}) == []


def test_runs_of_different_models_are_compared_by_this_one(store: Store) -> None:
    old_id, old = run_of(store, 1, 1)
    new_id, new = run_of(store, COST_MODEL_VERSION, COST_MODEL_VERSION)
    found = comparable_costs(store, {old_id: old, new_id: new})
    costs, notes = found.costs, found.notes
    again = recost_plans(store, old_id, old)
    assert costs == {
        old_id: [again.plans[plan.id].cost for plan in old],
        new_id: [plan.cost for plan in new],
    }
    assert notes == [f"run {old_id}: 2 plans {OLDER}; they are costed again here"]
    for plan, time in zip(old, found.times[old_id], strict=True):
        assert time is not None and time.seconds == pytest.approx(again.plans[plan.id].cost["time_s"])
    assert found.times[new_id] == [None, None]


def test_plans_that_would_break_a_bound_by_this_model_are_noted(store: Store) -> None:
    run_id, old = run_of(store, 1, 1, bound="peak_memory_bytes<=1KiB")
    notes = comparable_costs(store, {run_id: old}).notes
    assert notes[1:] == [f"run {run_id}: 2 of these plans would break a bound of the run by this model"]


def test_a_plan_that_cannot_be_made_again_is_named(store: Store) -> None:
    old_id, old = run_of(store, 1, 1, unknown_rule=True)
    new_id, new = run_of(store, COST_MODEL_VERSION, COST_MODEL_VERSION)
    again = recost_plans(store, old_id, old)
    assert list(again.failures) == [old[0].id] and "gone_rule" in again.failures[old[0].id]
    found = comparable_costs(store, {old_id: old, new_id: new})
    costs, notes = found.costs, found.notes
    assert costs[old_id] == [old[0].cost, again.plans[old[1].id].cost]
    assert notes[0] == f"run {old_id}: 2 plans {OLDER}"
    assert notes[1].startswith(f"1 plan cannot be costed again ({old_id}/{old[0].id}: ")
    assert notes[1].endswith("figures of different models stand side by side and do not compare")


def test_runs_of_one_older_model_compare_if_they_cannot_be_costed_again(store: Store) -> None:
    run_id, old = run_of(store, 1, 1, unknown_rule=True)
    found = comparable_costs(store, {run_id: old})
    costs, notes = found.costs, found.notes
    assert costs == {run_id: [plan.cost for plan in old]}
    assert notes[1].endswith("so all figures are by that model")
