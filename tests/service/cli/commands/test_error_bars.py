"""Tests of the errors of times as they are printed and stored: of a plan, of the fastest two, of two runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import tapestry as library
from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.service.cli.frontier import difference_text, lead_lines, print_frontier
from tapestry.service.verdicts import time_of
from tapestry.teg.document import save
from tests.service.conftest import Run

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


def test_plans_without_an_estimate_are_left_out() -> None:
    known = [
        {"id": name, "verified": {"time": found.to_json()}} for name, found in (("s", SLOW), ("f", FAST))
    ]
    before = {"id": "old", "verified": {}}
    assert [line.split(" by ")[0] for line in lead_lines([*known, before])] == ["f is faster than s"]
    assert list(lead_lines([known[0], before, {"id": "new", "verified": None}])) == []
    assert time_of({**known[0]["verified"], "cost_model": {"predicted": 1, "counted": 2}}) is None


def test_the_median_is_beside_a_quantile(capsys: pytest.CaptureFixture[str]) -> None:
    plan = {"id": "one", "cost": {"time_s": 2.5e-3}, "move_count": 0, "devices": "all"}
    verified = {"time": FAST.to_json(), "values": {"executed": False}, "sharding": {"ok": True, "issues": []}}
    counted = {"predicted": 1, "counted": 1, "method": "dry"}
    plan["verified"] = {**verified, "memory": counted, "traffic": counted}
    print_frontier([plan], ["time_s"], {}, 0.9)
    head, *_, row = capsys.readouterr().out.strip().splitlines()
    assert "time ms at 0.9" in head and "median" in head
    assert row.split()[:3] == ["one", "2.500", "2.00"]
    print_frontier([plan], ["time_s"], {})
    assert "median" not in capsys.readouterr().out


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
    time = plan["verified"]["time"]
    assert (
        time["seconds"] == pytest.approx(plan["cost"]["time_s"])
        and time["low"] < time["seconds"] < time["high"]
    )
    assert sum(each["seconds"] for each in time["classes"]) == pytest.approx(time["seconds"])

    runs = [each["run"] for each in found]
    assert tapestry("show", f"{runs[0]}/{plan['id']}", "--json").json["verified"]["time"] == time
    assert "with a probability of 90%; least certain are" in tapestry("show", f"{runs[0]}/{plan['id']}").out
    assert "90%" in tapestry("show", runs[0]).out
    compared = tapestry("compare", *runs, "--json").json["fastest"]
    fastest = min(each["cost"]["time_s"] for each in found[1]["frontier"])
    assert compared["seconds"] == pytest.approx(fastest - time["seconds"]) and compared["rests_on"]
    assert "the fastest plan of" in tapestry("compare", *runs).out
