"""Tests of the errors of times as they are printed and stored: of a plan, of the fastest two, of two runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tapestry as library
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.service.cli.frontier import difference_text, lead_lines, print_frontier
from tapestry.service.cli.searching import open_store
from tapestry.service.leads import with_leads
from tapestry.teg.document import save
from tests.service.conftest import Run
from tests.service.programs import finished_run, plan_by_hand, two_layers

FAST = TimeEstimate({"softmax.fp32": ClassTime(1e-3, 0.2), "copy": ClassTime(1e-3, 0.1)})
SLOW = TimeEstimate({"softmax.fp32": ClassTime(1e-3, 0.2), "copy": ClassTime(3e-3, 0.1)})


def test_the_text_of_a_difference_has_its_error_and_its_class() -> None:
    text = difference_text(SLOW.difference(FAST), "one", "two")
    assert text.startswith("two is faster than one by 2.000 ms (standard error 200.0 us), beyond the error")
    assert text.endswith("its lead rests on copy")
    near = TimeEstimate({"softmax.fp32": ClassTime(2.1e-3, 0.2)})
    assert "within the error of the model: with a probability of" in difference_text(
        FAST.difference(near), "a", "b"
    )
    assert difference_text(FAST.difference(FAST), "a", "b") == "a and b take the same time"


def document(name: str, time: TimeEstimate | None) -> dict[str, Any]:
    """Return a plan as a report has it; it was not verified."""
    seconds = {"time_s": 2.5e-3 if time is None else time.seconds}
    shown = None if time is None else time.to_json()
    return {
        "id": name,
        "cost": seconds,
        "cost_model": 1,
        "time": shown,
        "verified": None,
        "move_count": 0,
        "devices": "all",
        "micro_batches": 1,
        "recompute": None,
        "offload": None,
        "stages": None,
        "origin": None,
    }


def test_plans_without_an_estimate_are_left_out() -> None:
    known, before = [document("s", SLOW), document("f", FAST)], document("old", None)
    lines = list(lead_lines(with_leads([*known, before])))
    assert [line.split(" by ")[0] for line in lines] == ["f is faster than s"]
    assert list(lead_lines(with_leads([known[0], before]))) == []


def test_plans_within_the_error_of_the_fastest_are_marked(capsys: pytest.CaptureFixture[str]) -> None:
    near = (TimeEstimate({"scan": ClassTime((2 + k) * 1.01e-3, 0.2)}) for k in range(2))
    plans = with_leads([document("f", FAST), document("s", SLOW), *map(document, "no", near)])
    print_frontier(plans, ["time_s"], {"s": ["smallest"]})
    rows = {row.split()[0]: row for row in capsys.readouterr().out.strip().splitlines()}
    assert [name for name, row in rows.items() if "within the error" in row] == ["n", "o"]
    assert rows["s"].endswith("smallest")
    low, high = (f"{end * 1e3:#.3g}" for end in FAST.interval())
    assert f"{low} to {high}" in rows["f"]
    first, more = lead_lines(plans)
    assert first.startswith("f is faster than n by 20.00 us") and first.endswith("its lead rests on scan")
    assert more == "2 plans are behind it by no more than the error of the model"


def test_the_median_is_beside_a_quantile(capsys: pytest.CaptureFixture[str]) -> None:
    plan = {**document("one", FAST), "cost": {"time_s": 2.5e-3}, "lead": None}
    print_frontier([plan], ["time_s"], {}, 0.9)
    head, *_, row = capsys.readouterr().out.strip().splitlines()
    assert "time ms at 0.9" in head and "median" in head
    assert row.split()[:3] == ["one", "2.500", "2.00"]
    print_frontier([plan], ["time_s"], {})
    assert "median" not in capsys.readouterr().out


def stored_run(mesh: Mesh, *times: TimeEstimate) -> str:
    """Store a run whose plans take these times, of which none was verified; return its id."""
    finished = finished_run(two_layers())
    plans = [plan_by_hand(two_layers(), each.seconds, 2**20 + k) for k, each in enumerate(times)]
    frontier = tuple(replace(plan, time=each) for plan, each in zip(plans, times, strict=True))
    result = replace(finished.result, frontier=frontier, mesh=mesh)
    store = open_store(None)
    run_id = store.runs.save_finished(replace(finished, result=result, verified={}, executions={}))
    store.close()
    return run_id


def test_runs_are_compared_with_their_intervals(tapestry: Run) -> None:
    """Compare two plans whose lead rests on copies; it is certain unless the error of copies is wide."""
    mesh = load_mesh("dgx-h100")
    for error, words in ((0.1, "beyond the error"), (3.0, "within the error")):
        wide = [
            TimeEstimate({**each.classes, "copy": ClassTime(each.classes["copy"].seconds, error)})
            for each in (FAST, SLOW)
        ]
        runs = [stored_run(mesh, each) for each in wide]
        document = tapestry("compare", *runs, "--json").json
        for side, time in zip(document["runs"], wide, strict=True):
            assert (side["fastest"]["low"], side["fastest"]["high"]) == time.interval()
        assert document["fastest"]["within_error"] is (error > 1)
        assert document["fastest"]["rests_on"] == "copy"
        assert document["fastest"]["error_s"] == pytest.approx(2e-3 * error), "common terms cancel out"
        text = tapestry("compare", *runs).out
        (interval,) = [line for line in text.splitlines() if line.startswith("its interval at 90%")]
        assert interval.endswith(words) and interval.count(" to ") == 2
        assert f"{words} of the model" in text and "its lead rests on copy" in text


def test_errors_of_different_meshes_do_not_cancel_out(tapestry: Run) -> None:
    runs = [stored_run(load_mesh("dgx-h100"), FAST), stored_run(load_mesh("dgx-a100"), SLOW)]
    found = tapestry("compare", *runs, "--json").json["fastest"]
    assert found["error_s"] == pytest.approx(FAST.difference(SLOW, same_mesh=False).error_s)


@pytest.mark.parametrize(
    "other", [load_mesh("dgx-h100").launched("eager"), load_mesh("dgx-h100").at_quantile(0.9)]
)
def test_errors_of_one_device_cancel_out_at_any_launch_and_quantile(tapestry: Run, other: Mesh) -> None:
    runs = [stored_run(load_mesh("dgx-h100"), FAST), stored_run(other, SLOW)]
    found = tapestry("compare", *runs, "--json").json["fastest"]
    assert found["error_s"] == pytest.approx(FAST.difference(SLOW, same_mesh=True).error_s)


@pytest.mark.slow
def test_errors_are_stored_and_shown(tapestry: Run, tmp_path: Path) -> None:
    with library.program("two") as p:
        x = p.input("x", 512, 512)
        p.output("y", (x @ p.parameter("w", 512, 512)).softmax())
    document = tmp_path / "two.teg.json"
    save(p.graph, document)
    limits = ("--evaluations", 100, "--islands", 1, "--quiet", "--verify", "dry")
    found = [
        tapestry("optimize", document, "--mesh", mesh, *limits, "--json").json
        for mesh in ("dgx-h100", "dgx-a100")
    ]
    plan = min(found[0]["frontier"], key=lambda each: each["cost"]["time_s"])
    time = plan["time"]
    assert time == plan["verified"]["time"]
    assert (
        time["seconds"] == pytest.approx(plan["cost"]["time_s"])
        and time["low"] < time["seconds"] < time["high"]
    )
    assert sum(each["seconds"] for each in time["classes"]) == pytest.approx(time["seconds"])

    runs = [each["run"] for each in found]
    shown = tapestry("show", f"{runs[0]}/{plan['id']}", "--json").json
    assert (shown["time"], shown["lead"]) == (time, plan["lead"])
    assert "with a probability of 90%; least certain are" in tapestry("show", f"{runs[0]}/{plan['id']}").out
    assert "90%" in tapestry("show", runs[0]).out
    compared = tapestry("compare", *runs, "--json").json["fastest"]
    fastest = min(each["cost"]["time_s"] for each in found[1]["frontier"])
    assert compared["seconds"] == pytest.approx(fastest - time["seconds"]) and compared["rests_on"]
    assert "the fastest plan of" in tapestry("compare", *runs).out
