"""Tests of runs that start from stored ones: looked up, recorded, and repeated exactly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.teg.document import save
from tests.service.conftest import Run, complaint
from tests.teg.test_family import stack

BUDGET = ("--evaluations", 2000, "--islands", 1, "--quiet", "--verify", "none", "--json")


@pytest.fixture
def files(tmp_path: Path) -> dict[int, Path]:
    found = {layers: tmp_path / f"{layers}.json" for layers in (2, 4, 9)}
    for layers, path in found.items():
        save(stack(layers, width=64 * layers), path)
    return found


@pytest.mark.slow
def test_the_nearest_runs_are_found_recorded_and_repeated(tapestry: Run, files: dict[int, Path]) -> None:
    def optimize(layers: int, *more: object, mesh: str = "dgx-h100") -> dict[str, object]:
        found: dict[str, object] = tapestry("optimize", files[layers], "--mesh", mesh, *BUDGET, *more).json
        return found

    def source(run: object) -> object:
        return tapestry("show", run, "--json").json["start_from"]

    alone = optimize(9, "--start-from", "auto")
    assert source(alone["run"]) is None  # there was nothing yet
    two = optimize(2)
    auto = optimize(4, "--start-from", "auto")
    assert source(auto["run"]) == f"{two['run']},{alone['run']}"
    again = optimize(4, "--start-from", f"{two['run']},{alone['run']}", "--fresh")
    assert again["run"] != auto["run"] and again["frontier"] == auto["frontier"]
    assert optimize(4, "--start-from", "auto")["run"] in (auto["run"], again["run"])
    other = optimize(4, "--start-from", "auto", mesh="2x-dgx-h100")
    assert source(other["run"]) in (auto["run"], again["run"])  # the same program before its family


def test_runs_that_do_not_fit_are_refused(tapestry: Run, files: dict[int, Path], document: Path) -> None:
    run = tapestry("optimize", document, "--mesh", "dgx-h100", *BUDGET).json["run"]
    answer = tapestry("optimize", files[2], "--mesh", "dgx-h100", *BUDGET, "--start-from", run)
    assert f"--start-from: run {run} is of 'two_layers', an unrelated program" in complaint(answer)
    answer = tapestry("optimize", files[2], "--mesh", "dgx-h100", *BUDGET, "--start-from", "nothing")
    assert "--start-from: there is no run 'nothing'" in complaint(answer)
