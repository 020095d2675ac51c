"""Tests of plans that compute values again at the command line: they are shown, explained, run and exported."""

from __future__ import annotations

from pathlib import Path

import pytest

from tapestry.teg.document import save
from tests.optimizer.run.test_recomputation import step
from tests.service.conftest import Run


@pytest.mark.slow
def test_a_plan_that_computes_again_is_shown_explained_and_exported(tapestry: Run, tmp_path: Path) -> None:
    program = tmp_path / "step.json"
    save(step(), program)
    options = ("--mesh", "dgx-a100", "--evaluations", 12_000, "--islands", 1, "--quiet", "--seed", 1)
    found = tapestry("optimize", program, *options, "--verify", "none", "--json").json["frontier"]
    again = [plan for plan in found if plan["recompute"]]
    assert again and all(plan["recompute"].keys() == {"blocks", "bytes", "flops"} for plan in again)
    assert "computed again" in tapestry("optimize", program, *options, "--verify", "none").out

    chosen = next(plan for plan in again if plan["devices"] == "all")
    steps = tapestry("explain", chosen["id"], "--json").json["steps"]
    assert "recompute" in {move["rule"] for each in steps for move in each["moves"]}
    program_text = tapestry("export", chosen["id"], "--to", "jax").out
    assert "after(" in program_text and "again" in program_text
    assert "again" in tapestry("export", chosen["id"], "--to", "torch").out
