"""Tests of plans with micro-batches at the command line: they are shown, explained, run on processes, or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.teg.document import save
from tests.service.conftest import Run, complaint
from tests.teg.sharding.looped import training


@pytest.mark.slow
def test_a_plan_with_micro_batches_is_shown_run_and_exported(tapestry: Run, tmp_path: Path) -> None:
    program = tmp_path / "training.json"
    save(training(64, "float32"), program)
    options = ("--mesh", "dgx-h100", "--evaluations", 500, "--islands", 1, "--quiet")
    found = tapestry("optimize", program, *options, "--micro-batches", 4, "--json").json["frontier"]
    assert {plan["micro_batches"] for plan in found} == {4}
    table = tapestry("optimize", program, *options, "--micro-batches", 4, "--fresh").out
    assert "micro-batches" in table.splitlines()[1]
    widest = next(plan for plan in found if not plan["devices"] or plan["devices"] == "all")["id"]

    moves = [move for step in tapestry("explain", widest, "--json").json["steps"] for move in step["moves"]]
    assert {"rule": "set_option", "place": "micro_batches", "choice": "4 x x[0]"} in moves
    run = tapestry("simulate", widest, "--processes", 8).out
    assert "blocks and bytes as simulated: yes" in run and "equal the unsharded reference: yes" in run
    assert '"micro_batches": "4 x x[0]"' in tapestry("export", widest, "--to", "table").out

    teg = tapestry("export", widest, "--to", "teg", "-o", tmp_path / "plan.json")
    assert "does not support plans with rounds (micro-batches)" in complaint(teg)
    failing = tapestry("simulate", widest, "--processes", 8, "--fail", "gpu:7@0.5")
    assert "does not support plans with rounds (micro-batches)" in complaint(failing)
    impossible = tapestry("optimize", program, *options, "--micro-batches", 7)
    assert "7" in complaint(impossible) and "micro" in complaint(impossible)


def test_degrees_are_fixed_together(tapestry: Run, tmp_path: Path) -> None:
    program = tmp_path / "training.json"
    save(training(64, "float32"), program)
    options = (program, "--mesh", "dgx-h100", "--evaluations", 200, "--islands", 1, "--quiet", "--no-store")
    found = tapestry("optimize", *options, "--fix", "data=2,pipeline=2,micro_batches=4", "--json").json[
        "frontier"
    ]
    assert found and all(plan["micro_batches"] == 4 and plan["stages"]["count"] == 2 for plan in found)
    for text, reason in (
        ("tensr=2", "not 'tensr=2'; did you mean tensor?"),
        ("tensor", "write tensor=8,pipeline=4"),
        ("data=2,tensor=x", "tensor: expected a whole number from 1 to"),
        ("tensor=3", "argument --tensor-parallel: the axes gpu:8 cannot be divided for tensor 3"),
    ):
        assert reason in complaint(tapestry("optimize", *options, "--fix", text))
