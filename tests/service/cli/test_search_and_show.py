"""Tests of searching, storing, showing and simulating from the command line, on a small program and in this process."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import load_mesh
from tapestry.optimizer import RunOptions
from tapestry.optimizer.analysis.frontier_verification import TimedVerifier
from tapestry.optimizer.run.clock import Deadline
from tapestry.service import frontier_checks
from tapestry.service.checking import CheckResults
from tapestry.service.cli import searching
from tapestry.service.cli.frontier import ending_line
from tapestry.service.store import RunRequest, Store, StoreError, mesh_to_document
from tapestry.service.store.runs import Runs
from tapestry.teg.document import load, save
from tests.optimizer.clocks import CountingClock, SetClock
from tests.service.conftest import Answer, Run, complaint
from tests.service.programs import NOON, two_layers
from tests.teg.importers.models import GRAPHS

pytestmark = pytest.mark.slow

BUDGET = ("--mesh", "dgx-h100", "--evaluations", 3000, "--islands", 1, "--quiet")
OBJECTIVES = ["time_s", "peak_memory_bytes", "traffic_bytes", "energy_j"]


def optimize(tapestry: Run, document: Path, *options: object) -> Answer:
    answer = tapestry("optimize", document, *BUDGET, *options)
    assert answer.code == 0, answer.err
    return answer


def test_json_has_the_promised_form(tapestry: Run, document: Path) -> None:
    found = optimize(tapestry, document, "--json").json
    assert (found["graph"], found["mesh"], found["objectives"]) == ("two_layers", "dgx-h100", OBJECTIVES)
    assert (found["evaluations"], found["seed"], found["islands"]) == (3000, 0, 1)
    assert isinstance(found["seconds"], float)
    assert found["frontier"]
    for plan in found["frontier"]:
        versions = {"cost_model", "cost_model_note"}
        assert set(plan) == {
            "id",
            "devices",
            "micro_batches",
            "recompute",
            "offload",
            "stages",
            "origin",
            "cost",
            "feasible",
            "move_count",
            "moves",
            "verified",
            "time",
            "lead",
            *versions,
        }
        assert plan["time"] == plan["verified"]["time"], (
            "its parts are equal, so the simulator finds the same"
        )
        assert (plan["cost_model"], plan["cost_model_note"]) == (COST_MODEL_VERSION, None)
        assert plan["move_count"] == len(plan["moves"])
        assert set(OBJECTIVES) <= set(plan["cost"])
        assert plan["feasible"] is True
        assert all(set(move) == {"rule", "place", "choice"} for move in plan["moves"])
        verified = plan["verified"]
        assert set(verified) == {"sharding", "memory", "traffic", "values", "time"}
        assert verified["sharding"] == {"ok": True, "issues": []}
        for what in ("memory", "traffic"):
            assert set(verified[what]) == {"predicted", "counted", "method"}
            assert verified[what]["predicted"] == verified[what]["counted"]
        assert set(verified["values"]) == {"executed", "max_error", "ok"}
        assert set(verified["time"]) == {"seconds", "low", "high", "probability", "error", "classes"}
        assert verified["time"]["low"] < verified["time"]["seconds"] < verified["time"]["high"]
        assert all(set(kernels) == {"name", "seconds", "error"} for kernels in verified["time"]["classes"])


def test_no_plan_on_the_frontier_is_beaten_by_another(tapestry: Run, document: Path) -> None:
    plans = optimize(tapestry, document, "--json").json["frontier"]
    vectors = [[plan["cost"][name] for name in OBJECTIVES] for plan in plans]
    assert len({plan["id"] for plan in plans}) == len(plans)
    for a in vectors:
        assert not any(b != a and all(x <= y for x, y in zip(b, a, strict=True)) for b in vectors)


def test_the_same_evaluations_give_the_same_frontier(tapestry: Run, document: Path) -> None:
    first, second = (optimize(tapestry, document, "--json", "--fresh").json for _ in range(2))
    assert first["frontier"] == second["frontier"]
    assert first["run"] != second["run"]
    assert (first["reused"], second["reused"]) == (False, False)


def test_an_equal_request_is_answered_with_the_stored_run(tapestry: Run, document: Path) -> None:
    first = optimize(tapestry, document, "--json").json
    again = optimize(tapestry, document, "--json").json
    assert (again["run"], again["reused"], again["frontier"]) == (first["run"], True, first["frontier"])
    assert set(first) <= set(again)
    printed = optimize(tapestry, document).out
    assert f"this is its run {first['run']}, nothing was searched again (--fresh does)" in printed
    assert all(plan["id"] in printed for plan in first["frontier"])
    other = optimize(tapestry, document, "--json", "--seed", 1).json
    assert (other["run"] != first["run"], other["reused"]) == (True, False)
    assert optimize(tapestry, document, "--json", "--no-store").json["run"] is None


def test_a_stored_run_has_the_bounds_that_the_search_proved(tapestry: Run, document: Path) -> None:
    found = optimize(tapestry, document, "--json", "--verify", "none").json
    assert set(OBJECTIVES) <= set(found["bounds"])
    assert tapestry("show", found["run"], "--json").json["bounds"] == found["bounds"]
    shown = tapestry("show", found["run"]).out.splitlines()
    again = optimize(tapestry, document, "--verify", "none").out.splitlines()
    assert any(found["run"] in line and "nothing was searched again" in line for line in again)
    proven = [line for line in shown if line.startswith("proven: ")]
    assert len(proven) == len(found["bounds"])
    assert [line for line in again if line.startswith("proven: ")] == proven


def test_a_stored_run_says_why_it_ended_and_what_more_searching_would_bring(
    tapestry: Run, document: Path
) -> None:
    found = optimize(
        tapestry, document, "--json", "--verify", "none", "--gap", "100%", "--evaluations", 120_000
    ).json
    assert (found["stopped"], found["gap"]) == ("bound met", 1.0)
    assert tapestry("show", found["run"], "--json").json["expected"] == found["expected"]
    why = "the search ended because the best plan is proven to be within the gap that was asked for"
    assert any(line.startswith(why) for line in tapestry("show", found["run"]).out.splitlines())


def test_an_expectation_names_what_would_change() -> None:
    assert ending_line("budget", {"time_s": 0.0025, "energy_j": 0.0}) == (
        "the search ended because its seconds or evaluations are spent; as the best values improved so far, another "
        "minute would lower time by 0.25%"
    )
    assert ending_line("converged", {"time_s": 1e-5}).endswith(
        "would change no objective by as much as 0.01%"
    )
    assert ending_line("", {}) == ""


@pytest.mark.parametrize(
    ("mode", "methods"),
    [("auto", {"dry", "simulated"}), ("dry", {"dry"}), ("execute", {"simulated"})],
)
def test_what_is_executed(tapestry: Run, document: Path, mode: str, methods: set[str]) -> None:
    plans = optimize(tapestry, document, "--json", "--verify", mode).json["frontier"]
    assert {plan["verified"]["memory"]["method"] for plan in plans} <= methods
    for plan in plans:
        values = plan["verified"]["values"]
        assert values["executed"] == (plan["verified"]["memory"]["method"] == "simulated")
        assert values["ok"] == values["executed"]
        assert all(error <= 1e-4 for error in values["max_error"].values())
    if mode != "dry":
        assert any(plan["verified"]["values"]["executed"] for plan in plans)


def test_nothing_is_verified_on_request(tapestry: Run, document: Path) -> None:
    plans = optimize(tapestry, document, "--json", "--verify", "none").json["frontier"]
    assert {plan["verified"] for plan in plans} == {None}


def test_a_program_that_takes_too_long_to_execute_is_only_counted(tapestry: Run, document: Path) -> None:
    plans = optimize(tapestry, document, "--json", "--execution-seconds", "0").json["frontier"]
    assert not any(plan["verified"]["values"]["executed"] for plan in plans)


def test_plans_past_the_deadline_are_marked_in_every_form(
    tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a deadline that is far for the search, and for the checks two questions of a clock away."""
    monkeypatch.setattr(
        frontier_checks, "by_importance", lambda plans, objectives: sorted(plans, key=lambda plan: plan.id)
    )
    real = searching.check_frontier

    def check(*given: Any, verifier: TimedVerifier, **named: Any) -> CheckResults:
        at_once = TimedVerifier(verifier.mesh, None, SetClock(), SetClock())
        return real(*given, **{**named, "deadline": Deadline(2.5, CountingClock()), "verifier": at_once})

    monkeypatch.setattr(searching, "check_frontier", check)
    answer = tapestry("optimize", document, *BUDGET, "--deadline", 3600, "--json")
    found = answer.json
    assert answer.code == 0
    assert found["budget"]["deadline_seconds"] == 3600
    count = len(found["frontier"])
    assert (found["checks"]["verified"], found["checks"]["unchecked"]) == (2, count - 2)
    assert found["unchecked_because"] == "the deadline"
    assert sum(plan["verified"] is None for plan in found["frontier"]) == count - 2
    shown = tapestry("show", found["run"], "--json").json
    for name in ("frontier", "checks", "unchecked_because", "budget"):
        assert shown[name] == found[name], name
    text = f"verified dry: 2 of {count} plans; {count - 2} not verified: the deadline"
    assert text in tapestry("show", found["run"]).out
    assert text in tapestry("optimize", document, *BUDGET, "--deadline", 3600, "--no-store").out


def test_constraints_hold_on_the_frontier(tapestry: Run, document: Path) -> None:
    free = optimize(tapestry, document, "--json").json["frontier"]
    bound = sorted(plan["cost"]["peak_memory_bytes"] for plan in free)[len(free) // 2]
    bounded = optimize(tapestry, document, "--json", "--constraint", f"peak_memory_bytes<={bound}B").json
    assert all(plan["cost"]["peak_memory_bytes"] <= bound for plan in bounded["frontier"])


def test_a_table_for_people(tapestry: Run, document: Path) -> None:
    lines = optimize(tapestry, document).out.splitlines()
    assert lines[0].startswith("two_layers on dgx-h100, plans on the frontier: ")
    assert lines[1].split()[:3] == ["plan", "time", "us"]
    assert {"knee", "fastest", "smallest peak"} <= {word for line in lines for word in marks(line)}
    assert not any("\x1b" in line for line in lines)


def marks(line: str) -> set[str]:
    return {word for word in ("knee", "fastest", "smallest peak") if word in line}


def test_progress_goes_to_standard_error(tapestry: Run, document: Path) -> None:
    answer = tapestry("optimize", document, *BUDGET[:-1], "--json")
    assert answer.json["frontier"]
    assert "verifying: " in answer.err and "searching: " in answer.err


def test_a_run_is_stored_and_shown(tapestry: Run, document: Path) -> None:
    found = optimize(tapestry, document, "--json", "--pin", "y=[gpu.0, -]", "--seed", 3).json
    shown = tapestry("show", found["run"], "--json").json
    for name in ("graph", "mesh", "objectives", "evaluations", "seed", "islands", "frontier", "rules", "run"):
        assert shown[name] == found[name], name
    assert shown["pins"] == {"y": "[gpu.0, -]"}
    assert shown["budget"] == {"seconds": None, "evaluations": 3000, "deadline_seconds": None}
    listed = tapestry("show", "--json").json["runs"]
    assert [run["run"] for run in listed] == [found["run"]]
    assert found["run"] in tapestry("show").out
    assert found["frontier"][0]["id"] in tapestry("show", found["run"]).out


def test_a_plan_is_shown_with_its_moves_and_executions(tapestry: Run, document: Path) -> None:
    found = optimize(tapestry, document, "--json").json
    plan = next(p for p in found["frontier"] if p["verified"]["values"]["executed"])
    shown = tapestry("show", plan["id"], "--json").json
    assert {name: shown[name] for name in plan} == plan
    assert [e["backend"] for e in shown["executions"]] == ["numpy"]
    text = tapestry("show", f"{found['run']}/{plan['id']}").out
    assert all(move["rule"] in text for move in plan["moves"])


def test_nothing_is_stored_on_request(tapestry: Run, document: Path, home: Path) -> None:
    assert optimize(tapestry, document, "--json", "--no-store").json["run"] is None
    assert not home.exists()
    assert "nothing is stored yet" in tapestry("show").out


def test_a_database_that_fails_at_the_end_takes_no_result_away(
    tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> str:
        raise StoreError("the database refused to write; nothing was stored: disk is full")

    monkeypatch.setattr(Runs, "save_finished", refuse)
    answer = tapestry("optimize", document, *BUDGET, "--json")
    assert answer.code == 1
    assert answer.json["frontier"] and answer.json["run"] is None
    assert answer.err == "tapestry: the database refused to write; nothing was stored: disk is full\n"


def test_a_broken_promise_is_reported(tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = frontier_checks.count_plan

    def wrong(*args: Any) -> dict[str, Any]:
        verified = count(*args)
        verified["memory"]["counted"] += 1
        return verified

    monkeypatch.setattr(frontier_checks, "count_plan", wrong)
    answer = tapestry("optimize", document, *BUDGET, "--verify", "dry")
    assert answer.code == 1
    assert "FAILED" in answer.out
    assert "the simulator counted" in answer.err


def test_import_sums_up_and_writes_a_document(tapestry: Run, document: Path, tmp_path: Path) -> None:
    summary = tapestry("import", document, "--json").json
    assert (summary["name"], summary["operators"]["contract"], summary["sinks"]) == (
        "two_layers",
        2,
        ["result"],
    )
    assert summary["parameters"] == 2 * 64 * 256
    assert summary["flops"] == 2 * 2 * 64 * 64 * 256 + 64 * 256
    assert (summary["shardable_share"], summary["fixed_blocks"]) == (1.0, 0)
    assert summary["components"] == 1 and 2 < summary["layers"] <= summary["blocks"]
    copy = tmp_path / "copy.json.gz"
    answer = tapestry("import", document, "-o", copy)
    assert answer.code == 0 and f"written to {copy}" in answer.out
    assert load(copy) == load(document)


def test_simulate_the_abstract_plan(tapestry: Run, document: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json.gz"
    answer = tapestry("simulate", document, "--mesh", "dgx-h100", "--trace", trace, "--json")
    assert answer.code == 0, answer.err
    for pair in (
        answer.json["counts"][name] for name in ("peak_memory_bytes", "traffic_bytes", "compute_flops")
    ):
        assert pair["predicted"] == pair["counted"]
    assert answer.json["verified"]["values"]["ok"] is True
    events = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    assert {event["pid"] for event in events} == set(range(8))
    text = tapestry("simulate", document, "--mesh", "dgx-h100", "--dry").out
    assert "values: not computed" in text


def test_simulate_a_stored_plan(tapestry: Run, document: Path) -> None:
    found = optimize(tapestry, document, "--json", "--verify", "dry").json
    for plan in found["frontier"][:3]:
        answer = tapestry("simulate", "--plan", plan["id"], "--json")
        assert answer.code == 0, answer.err
        assert answer.json["verified"]["values"]["ok"] is True
        assert answer.json["counts"]["peak_memory_bytes"]["counted"] == plan["cost"]["peak_memory_bytes"]
        assert answer.json["counts"]["traffic_bytes"]["counted"] == plan["cost"]["traffic_bytes"]
        assert len(tapestry("show", plan["id"], "--json").json["executions"]) == 1
    assert tapestry("simulate", "--run", found["run"], "--dry").code == 0


def test_simulate_checks_whose_plan_it_is(tapestry: Run, document: Path, tmp_path: Path) -> None:
    plan = optimize(tapestry, document, "--json").json["frontier"][0]["id"]
    assert tapestry("simulate", document, "--plan", plan, "--dry").code == 0
    other = tmp_path / "other.json"
    save(two_layers(width=32), other)
    assert "was found for 'two_layers'" in complaint(tapestry("simulate", other, "--plan", plan, "--dry"))


def test_a_run_of_the_service_is_shown_as_it_stands(tapestry: Run, home: Path) -> None:
    """Check that waiting, searching and failed runs of the service are seen from the command line too."""
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    graph_id = store.graphs.save(two_layers(), NOON).id
    mesh = mesh_to_document(load_mesh("dgx-h100"))
    run_id = store.runs.submit(
        RunRequest(graph_id, mesh, RunOptions(objectives=("time_s", "energy_j"))), NOON
    ).id
    waiting = tapestry("show", run_id).out
    assert f"run {run_id}: two_layers on dgx-h100, queued (queued)\n" in waiting
    assert "it waits: number 1, and no worker is there\n" in waiting
    alive = {"host": "here", "pid": 1, "status": "idle", "subject": None}
    store.workers.beat("a worker", NOON, **alive)
    assert (
        "it waits: number 1, expected to begin in 0 s (a guess, 0 s to 0 s)\n" in tapestry("show", run_id).out
    )
    assert tapestry("show", run_id, "--json").json["queue"]["position"] == 1
    assert "0 plans evaluated in 0.0 s; asked for:\n" in waiting
    lines = [line.split(maxsplit=1) for line in waiting.splitlines()]
    assert ["objectives", "time_s, energy_j"] in lines
    assert ["islands", "one per core"] in lines
    assert ["constraints", "the devices' memory"] in lines
    job = store.jobs.claim("a worker", NOON, 15.0)
    assert job is not None
    store.jobs.phase(job, NOON, 15.0, "seeding")
    assert "running (seeding)" in tapestry("show", run_id).out
    why = {"code": "no_feasible_plan", "title": "No feasible plan", "detail": "the bound is too small"}
    store.jobs.end_run(job, NOON, "failed", stopped="budget", problem=why)
    store.close()
    assert "failed (budget)" in tapestry("show", run_id).out
    assert "\nNo feasible plan: the bound is too small\n" in tapestry("show", run_id).out
    found = tapestry("show", run_id, "--json").json
    assert (found["status"], found["problem"], found["frontier"]) == ("failed", why, [])


def test_steps_go_on_from_the_state_of_the_one_before(tapestry: Run) -> None:
    model = GRAPHS / "tiny_train_mlp_784_4x4096_b1024_sgd.onnx"
    ran = tapestry("simulate", model, "--mesh", "dgx-h100", "--steps", 2, "--json")
    assert ran.code == 0, ran.err
    first, second = ran.json["steps"]
    assert first["verified"]["values"]["ok"] and second["verified"]["values"]["ok"]
    assert first["counts"]["traffic_bytes"] == second["counts"]["traffic_bytes"]
    assert ran.json["counts"] == second["counts"]
    assert (
        "2 steps, the last one shown" in tapestry("simulate", model, "--mesh", "dgx-h100", "--steps", 2).out
    )
