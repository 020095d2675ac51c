"""Tests of the command line as people run it: processes, Ctrl-C, and the demo."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tapestry.service.store import Store
from tapestry.teg.document import save
from tests.service.programs import two_layers

ROOT = Path(__file__).resolve().parents[3]
COMMAND = (sys.executable, "-m", "tapestry.service.cli")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TAPESTRY_HOME": str(tmp_path / "home")}


@pytest.mark.slow
def test_two_processes_find_what_they_found_before(document: Path, environment: dict[str, str]) -> None:
    command = [*COMMAND, "optimize", str(document), "--mesh", "dgx-h100", "--seconds", "1", "--json"]
    command += ["--islands", "2"]
    first = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert first.returncode == 0, first.stderr
    evaluations = str(json.loads(first.stdout)["evaluations"])
    command[command.index("--seconds") : command.index("--json")] = ["--evaluations", evaluations]
    second = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert json.loads(second.stdout)["frontier"] == json.loads(first.stdout)["frontier"]


@pytest.mark.slow
@pytest.mark.parametrize("islands", ["1", "2"])
def test_ctrl_c_keeps_the_frontier(tmp_path: Path, environment: dict[str, str], islands: str) -> None:
    path = tmp_path / "wide.json"
    save(two_layers(width=4096), path)
    command = [*COMMAND, "optimize", str(path), "--mesh", "dgx-h100", "--seconds", "500", "--json"]
    command += ["--islands", islands, "--verify", "dry"]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        message = ""
        while "searching" not in message:
            message = process.stderr.readline()
            assert message, "the search ended by itself"
        os.killpg(process.pid, signal.SIGINT)  # what a terminal does: the workers hear it too
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted; the frontier found until then was kept" in err
    assert "Traceback" not in err
    found = json.loads(out)
    assert found["frontier"] and all(plan["verified"] is not None for plan in found["frontier"])
    store = Store(f"sqlite:///{tmp_path / 'home' / 'tapestry.db'}")
    assert store.runs.find(found["run"]).summary.status == "cancelled"
    store.close()


@pytest.mark.slow
def test_the_demo_holds_what_it_claims(environment: dict[str, str], tmp_path: Path) -> None:
    """Check all that the demo claims, of a small program and a number of plans: so it says the same at any speed."""
    path = tmp_path / "small.json"
    save(two_layers(width=256), path)
    command = [sys.executable, "-m", "tests.service.cli.small_demo", str(path)]
    command += ["--evaluations", "4000", "--islands", "1", "--json"]
    answer = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    assert found["evaluations"] >= 4000
    assert len(found["claims"]) == 7 and all(claim["holds"] for claim in found["claims"])
    assert len(found["frontier"]) >= 8 and len(found["objectives"]) >= 4
    assert sum(plan["verified"]["values"]["executed"] for plan in found["frontier"]) >= 1
    store = Store(f"sqlite:///{tmp_path / 'home' / 'tapestry.db'}")
    assert len(store.runs.frontier(found["id"])) == len(found["frontier"])
    store.close()
