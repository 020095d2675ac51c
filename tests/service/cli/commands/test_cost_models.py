"""Tests of commands on plans of an older cost model: they say so, and no figures are compared across models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.service.cli.searching import open_store
from tests.service.conftest import Run
from tests.service.programs import finished_run, two_layers

OLDER = f"costed by an older model (1; this is {COST_MODEL_VERSION})"
Stored = Callable[[int], str]


@pytest.fixture
def stored(home: Any) -> Stored:
    """Return a function that stores a run whose plans have costs of this version, and returns its id."""

    def store_run(cost_model: int) -> str:
        finished = finished_run(two_layers())
        plans = tuple(
            replace(
                plan,
                cost={**plan.cost, "traffic_bytes": 5, "total_memory_bytes": 2**23},
                cost_model=cost_model,
            )
            for plan in finished.result.frontier
        )
        store = open_store(None)
        run_id = store.runs.save_finished(replace(finished, result=replace(finished.result, frontier=plans)))
        store.close()
        return run_id

    return store_run


def test_show_says_which_costs_are_of_an_older_model(tapestry: Run, stored: Stored) -> None:
    run_id = stored(1)
    assert f"run {run_id}: 2 plans {OLDER}: do not compare" in tapestry("show", run_id).out
    document = tapestry("show", run_id, "--json").json
    assert {(p["cost_model"], p["cost_model_note"]) for p in document["frontier"]} == {(1, OLDER)}
    plan = f"{run_id}/{document['frontier'][0]['id']}"
    assert f"\n{OLDER}\n" in tapestry("show", plan).out
    assert tapestry("show", plan, "--json").json["cost_model"] == 1
    assert "older" not in tapestry("show", stored(COST_MODEL_VERSION)).out


def test_compare_costs_plans_of_an_older_model_again(tapestry: Run, stored: Stored) -> None:
    first, second, newer = stored(1), stored(1), stored(COST_MODEL_VERSION)
    document = tapestry("compare", first, second, "--json").json
    assert document["notes"] == [
        f"run {run}: 2 plans {OLDER}; they are costed again here" for run in (first, second)
    ]
    one, other = document["runs"]
    assert one["best"] == other["best"] != {"time_s": 1e-3, "peak_memory_bytes": 2.0**19}
    assert f"note: run {first}: 2 plans {OLDER}" in tapestry("compare", first, newer).out
    assert tapestry("compare", newer, newer, "--json").json["notes"] == []


def test_explain_of_an_older_plan_says_why_its_costs_differ(tapestry: Run, stored: Stored) -> None:
    run_id = stored(1)
    plan = tapestry("show", run_id, "--json").json["frontier"][0]["id"]
    answer = tapestry("explain", plan, "--run", run_id, "--json")
    assert answer.code == 0
    assert f"plan {plan}: it was {OLDER}, by which time_s = 0.001; its history ends at " in answer.err
    assert (answer.json["as_stored"], answer.json["cost_model_note"]) == (False, OLDER)
    assert tapestry("explain", plan, "--run", stored(COST_MODEL_VERSION)).code == 1


def test_simulate_of_an_older_plan_says_why_counts_differ(tapestry: Run, stored: Stored) -> None:
    run_id = stored(1)
    answer = tapestry("simulate", "--run", run_id, "--dry")
    assert answer.code == 0
    assert f"{OLDER}: counts that differ from its predictions are no fault of the plan" in answer.out
    assert "predicted traffic 5 B, the simulator counted " in answer.err
    assert f"; it was {OLDER}\n" in answer.err
    document = tapestry("simulate", "--run", run_id, "--dry", "--json").json
    assert document["verified"]["cost_model"] == {"predicted": 1, "counted": COST_MODEL_VERSION}
    assert tapestry("simulate", "--run", stored(COST_MODEL_VERSION), "--dry").code == 1
