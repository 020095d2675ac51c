"""Tests of objectives on the command line: a program's own resources and expressions, from the search to its report."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.teg.costs import cost_table
from tapestry.teg.document import save
from tests.costmodel.test_resources import SEED, priced_chain
from tests.service.conftest import Run, complaint

REQUESTED = ("time_s", "peak_gpu", "max(time_s, 1e-06)*gpu")


@pytest.fixture
def priced(tmp_path: Path) -> Path:
    path = tmp_path / "priced.json"
    save(priced_chain(cost_table({"gpu": 10}, SEED), cost_table({}, {"m": {"usd": 0.25}})), path)
    return path


def optimize(priced: Path, *more: str) -> tuple[object, ...]:
    limits = ("--evaluations", "600", "--islands", "1", "--quiet", "--verify", "dry")
    return ("optimize", priced, "--mesh", "dgx-h100", *limits, *more)


def test_a_resource_and_an_expression_are_searched_stored_shown_and_explained(
    tapestry: Run, priced: Path
) -> None:
    requested = optimize(
        priced, "--objectives", ",".join(REQUESTED), "--constraint", "usd<=50", "--constraint", "time_s<=900%"
    )
    found = tapestry(*requested, "--json").json

    assert found["objectives"] == list(REQUESTED)
    assert found["constraints"][:2] == ["usd<=50", "time_s<=900%"]
    assert found["frontier"]
    for plan in found["frontier"]:
        cost = plan["cost"]
        assert cost["usd"] <= 50
        assert cost[REQUESTED[2]] == pytest.approx(max(cost["time_s"], 1e-6) * cost["gpu"])
        assert plan["verified"]["named_costs"]["gpu"] == cost["gpu"]
    stored = tapestry("show", found["run"], "--json").json
    assert stored["objectives"] == list(REQUESTED)
    assert {p["id"]: p["cost"] for p in stored["frontier"]} == {p["id"]: p["cost"] for p in found["frontier"]}
    printed = tapestry("show", found["run"]).out
    assert "peak gpu" in printed and "max(time_s, 1e-06)*gpu" in printed
    plan = found["frontier"][0]
    (line,) = (
        line for line in tapestry("show", plan["id"]).out.splitlines() if line.startswith(REQUESTED[2])
    )
    assert float(line.split()[-1]) == pytest.approx(plan["cost"][REQUESTED[2]], rel=1e-3)
    reported = tapestry("explain", plan["id"], "--json")
    assert reported.code == 0, reported.err
    assert reported.json["objectives"] == list(REQUESTED)
    assert tapestry("simulate", "--run", found["run"]).code == 0


def test_faults_are_reported_in_one_line(tapestry: Run, priced: Path) -> None:
    message = complaint(tapestry(*optimize(priced, "--objectives", "time_s,peak_gpus")))
    assert "there is no objective 'peak_gpus'; did you mean peak_gpu" in message
    message = complaint(tapestry(*optimize(priced, "--objectives", "0.7*time_s + 0.3*energy")))
    assert "at character 18 there is an unknown cost 'energy'; did you mean energy_j" in message
    message = complaint(tapestry(*optimize(priced, "--constraint", "time_s<=90%")))
    assert "no plan has less than 100% of the best" in message


def test_a_resource_that_shadows_an_objective_is_reported_with_its_block(
    tapestry: Run, tmp_path: Path
) -> None:
    save(priced_chain(cost_table({"energy_j": 1})), tmp_path / "shadow.json")
    message = complaint(tapestry(*optimize(tmp_path / "shadow.json")))
    assert "block 'y0': its cost table names a resource 'energy_j'" in message
