"""Tests of `tapestry verify`: a plan's programs for JAX and PyTorch come back in, and changed ones are told apart."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tapestry.service.store import Store
from tests.service.conftest import Run, complaint
from tests.service.programs import finished_run, two_layers


@pytest.fixture
def plan(home: Path) -> str:
    """Store a run and return the reference of a plan of it that gathers columns."""
    home.mkdir()
    store = Store(f"sqlite:///{home / 'tapestry.db'}")
    run = finished_run(two_layers())
    frontier = [replace(p, cost={**p.cost, "total_memory_bytes": 2**20}) for p in run.result.frontier]
    run_id = store.runs.save_finished(replace(run, result=replace(run.result, frontier=tuple(frontier))))
    store.close()
    return f"{run_id}/{run.result.frontier[1].id}"


@pytest.mark.slow
def test_an_exported_program_is_lowered_and_verified(tapestry: Run, plan: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    module, lowered = tmp_path / "plan.py", tmp_path / "step.mlir"
    assert tapestry("export", plan, "--to", "jax", "-o", module).code == 0
    subprocess.run([sys.executable, module, "--lower", lowered, "--cpu"], check=True, timeout=100)
    text = lowered.read_text()

    report = tapestry("verify", plan, lowered, "--json").json
    assert (report["ok"], report["devices"], report["double"]) == (True, 8, True)
    assert report["max_error"]["result"] <= report["tolerance"] < 2e-6

    assert text.count("[[0, 4], ") == 1
    lowered.write_text(text.replace("[[0, 4], ", "[[4, 0], "))
    refuted = tapestry("verify", plan, lowered)
    assert refuted.code == 1 and "the module computes the program: NO" in refuted.out
    assert "output 'result' differs by" in refuted.err


@pytest.mark.slow
def test_a_changed_program_for_pytorch_is_recorded_and_refuted(
    tapestry: Run, plan: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    module = tmp_path / "plan.py"
    assert tapestry("export", plan, "--to", "torch", "-o", module).code == 0
    text = module.read_text()
    assert text.count("torch.relu(") == 1
    module.write_text(text.replace("torch.relu(", "torch.neg("))
    refuted = tapestry("verify", plan, module, "--backend", "nccl", "--json")
    assert refuted.code == 1 and "output 'result' differs by" in refuted.err
    report = refuted.json
    assert (report["ok"], report["devices"], report["double"]) == (False, 8, True)
    assert report["max_error"]["result"] > 0.1 > report["tolerance"]


def test_what_is_no_module_of_a_plan_is_refused(tapestry: Run, plan: str, tmp_path: Path) -> None:
    module = tmp_path / "plan.py"
    assert "there is no file" in complaint(tapestry("verify", plan, module))
    assert tapestry("export", plan, "--to", "jax", "-o", module).code == 0
    assert f"python {module} --lower FILE" in complaint(tapestry("verify", plan, module))


def test_what_is_no_lowered_program_is_refused(tapestry: Run, plan: str, tmp_path: Path) -> None:
    pytest.importorskip("jax")
    assert "there is no file" in complaint(tapestry("verify", plan, tmp_path / "step.mlir"))
    (tmp_path / "other.mlir").write_text(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    )
    message = complaint(tapestry("verify", plan, tmp_path / "other.mlir"))
    assert "this is no program of the plan" in message and "'arg0'" in message
