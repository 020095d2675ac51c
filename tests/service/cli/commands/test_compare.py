"""Tests of `tapestry compare`: up to four runs by one reference, up to four plans by costs and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.optimizer.archive.origin import SEED, PlanOrigin
from tapestry.service.cli.searching import open_store
from tests.service.conftest import Run, complaint
from tests.service.programs import finished_run, plan_by_hand, two_layers

FAST = TimeEstimate({"copy": ClassTime(1e-3, 0.1)})
SLOW = TimeEstimate({"copy": ClassTime(4e-3, 0.1)})
ROWS, COLUMNS = "(gpu.0, -, -)", "(-, gpu.0, -)"


def stored_run(*costs: tuple[float, int], seed: int = 0) -> str:
    """Store a run with plans of these times and memories, and return its id."""
    finished = finished_run(two_layers())
    plans = tuple(replace(plan_by_hand(two_layers(), *cost), cost_model=COST_MODEL_VERSION) for cost in costs)
    result, options = replace(finished.result, frontier=plans), replace(finished.options, seed=seed)
    store = open_store(None)
    found = replace(finished, result=result, options=options, verified={}, executions={})
    run_id = store.runs.save_finished(found)
    store.close()
    return run_id


def stored_plans() -> list[str]:
    """Store a run with a seed and two further plans; return how they are named."""
    finished = finished_run(two_layers())
    made = [
        (plan_by_hand(two_layers(), 1e-3, 2**21, ROWS), FAST, PlanOrigin(SEED, "data parallel 2")),
        (plan_by_hand(two_layers(), 4e-3, 2**20, COLUMNS), SLOW, None),
        (plan_by_hand(two_layers(), 2e-3, 2**22, ROWS), None, None),
    ]
    plans = [replace(plan, time=time, origin=origin) for plan, time, origin in made]
    result = replace(finished.result, frontier=tuple(plans))
    store = open_store(None)
    run_id = store.runs.save_finished(replace(finished, result=result, verified={}, executions={}))
    store.close()
    return [f"{run_id}/{plan.id}" for plan in plans]


def cells(text: str, title: str) -> list[str]:
    """Return the cells of the row with this title."""
    (row,) = [line for line in text.splitlines() if line.startswith(title + "  ")]
    return row.removeprefix(title).split("  ")[1:]


def filled(row: Sequence[str]) -> list[str]:
    return [cell.strip() for cell in row if cell.strip()]


def test_three_runs_have_one_reference(tapestry: Run) -> None:
    runs = [
        stored_run((1.0, 100), (2.0, 50)),
        stored_run((2.0, 100), seed=7),
        stored_run((4.0, 25), seed=7),
    ]
    found = tapestry("compare", *runs, "--json").json
    assert found["reference"] == pytest.approx({"time_s": 4.4, "peak_memory_bytes": 110.0})
    corner = 4.4 * 110
    areas = [3.4 * 10 + 2.4 * 60 - 2.4 * 10, 2.4 * 10, 0.4 * 85]
    assert [side["run"] for side in found["runs"]] == runs
    assert [side["hypervolume"] for side in found["runs"]] == pytest.approx([area / corner for area in areas])
    assert [side["best"]["time_s"] for side in found["runs"]] == [1.0, 2.0, 4.0]
    assert [side["strictly_better"] for side in found["runs"]] == [2, 0, 1]
    assert [len(side["points"]) for side in found["runs"]] == [2, 1, 1]
    assert found["differences"] == ["seed: 0 and 7 and 7"]

    text = tapestry("compare", *runs).out
    assert "not the same: seed: 0 and 7 and 7" in text
    assert filled(cells(text, "least time")) == ["1.000 s", "2.000 s (2.000)", "4.000 s (4.000)"]
    assert filled(cells(text, "least peak memory")) == ["50 B", "100 B (2.000)", "25 B (0.500)"]
    assert filled(cells(text, "plans they do not")) == ["2", "0", "1"]


def test_plans_are_compared_by_costs_and_decisions(tapestry: Run) -> None:
    plans = stored_plans()
    found = tapestry("compare", *plans, "--json").json
    assert [f"{plan['run']}/{plan['plan']}" for plan in found["plans"]] == plans
    assert found["plans"][0]["lead"] is None and found["plans"][2]["lead"] is None
    assert found["plans"][1]["lead"]["seconds"] == pytest.approx(3e-3)
    (group,) = found["decisions"]["groups"]
    assert (group["sites"], [value["strategy"] for value in group["values"]]) == (
        ["y"],
        [ROWS, COLUMNS, ROWS],
    )

    text = tapestry("compare", *plans).out
    names = [name.partition("/")[2] for name in plans]
    assert text.splitlines()[0].split() == ["cost", names[0], names[1], "/", "first", names[2], "/", "first"]
    assert filled(cells(text, "time")) == ["1.000 ms", "4.000 ms", "4.000", "2.000 ms", "2.000"]
    assert filled(cells(text, "peak memory")) == ["2.000 MiB", "1.000 MiB", "0.500", "4.000 MiB", "2.000"]
    assert filled(cells(text, "origin")) == ["seed: data parallel 2", "unknown", "unknown", "differs"]
    assert filled(cells(text, "devices")) == ["all"] * 3
    assert f"{names[0]} is faster than {names[1]} by 3.000 ms" in text
    assert "about 0 of 1 block all decide the same" in text
    assert filled(cells(text, "y")) == [ROWS, COLUMNS, ROWS]


def test_equal_plans_of_two_runs_are_named_with_their_runs(tapestry: Run) -> None:
    plans = [stored_plans()[0], stored_plans()[0]]
    text = tapestry("compare", *plans).out
    assert text.splitlines()[0].split()[1:3] == plans
    assert "about 1 of 1 block all decide the same" in text and "blocks that differ" not in text


def test_two_to_four_runs_or_plans_are_compared(tapestry: Run) -> None:
    run, plan = stored_run((1.0, 100)), stored_plans()[0]
    assert complaint(tapestry("compare", run)) == "compare takes 2 to 4 runs or plans, not 1"
    assert complaint(tapestry("compare", *[run] * 5)) == "compare takes 2 to 4 runs or plans, not 5"
    mixed = f"compare takes either runs or plans: {run} is a run and {plan} is a plan"
    assert complaint(tapestry("compare", run, plan)) == mixed
    assert "there is no run and no plan 'zzz'" in complaint(tapestry("compare", run, "zzz"))


def test_the_table_of_a_run_names_its_seeds(tapestry: Run) -> None:
    plans = stored_plans()
    run_id, _, plan_id = plans[0].partition("/")
    lines = tapestry("show", run_id).out.splitlines()
    (head,) = [line for line in lines if line.startswith("plan ")]
    lines = [line for line in lines if " is faster than " not in line]
    rows = {
        line.split()[0]: line for line in lines if line.startswith(tuple(p.partition("/")[2] for p in plans))
    }
    assert "origin" in head and "seed: data parallel 2" in rows[plan_id]
    assert sum("seed" in row for row in rows.values()) == 1
    shown = tapestry("show", plans[0], "--json").json
    assert shown["origin"] == {"kind": "seed", "name": "data parallel 2"}
    meaning = "a first plan, placed by propagation or whole on every device"
    assert f"origin: seed: data parallel 2 ({meaning})" in tapestry("show", plans[0]).out
    assert tapestry("show", plans[1], "--json").json["origin"] is None
