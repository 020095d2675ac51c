"""Tests of batches on the command line: what a file may hold, bad entries, and batches that are killed."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tapestry.optimizer.run.plan import WORKERS_LOST
from tapestry.service.batches import BatchError, batch_of, read_batch
from tapestry.service.cli.commands import tune
from tapestry.service.store import Store
from tapestry.teg.document import save
from tests.service.conftest import Run, complaint
from tests.service.programs import two_layers

ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "tapestry.service.cli"]
FILE = """
models = ["two_layers.json", "missing.onnx"]
meshes = ["dgx-h100", "2x-dgx-h100"]
seeds = [0, 1]
verify = "none"
[budget]
evaluations = 1500
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "TAPESTRY_HOME": str(tmp_path / "home")}


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    save(two_layers(), tmp_path / "two_layers.json")
    path = tmp_path / "batch.toml"
    path.write_text(FILE)
    return path


def outcome(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return what a report says of its entries, but for the ids of runs."""
    return [
        (
            *(
                entry["model"],
                entry["mesh"],
                entry["seed"],
                entry["status"],
                entry["plans"],
                entry["problem"],
            ),
            {name: best["value"] for name, best in entry["best"].items()},
            {name: bound["bound"] for name, bound in entry["bounds"].items()},
        )
        for entry in document["entries"]
    ]


def test_bad_entries_are_named_and_the_others_run(tapestry: Run, batch: Path) -> None:
    answer = tapestry("tune", batch, "--islands", 1)
    assert answer.code == 1
    place = "missing.onnx on 2x-dgx-h100, seed 1 failed (models[1] 'missing.onnx', meshes[1] '2x-dgx-h100'): program:"
    assert place in answer.out and place in answer.err
    assert "8 runs: 4 succeeded, 4 failed, 0 pending" in answer.out
    again = tapestry("tune", batch, "--islands", 1, "--quiet", "--json").json
    assert [entry["reused"] for entry in again["entries"]] == [True] * 4 + [False] * 4
    report = batch.parent / "batch.report"
    assert (report / "report.html").is_file()
    parquet = pytest.importorskip("pyarrow.parquet")
    with (report / "frontiers.csv").open() as file:
        rows = list(csv.DictReader(file))
    columns = parquet.read_table(report / "frontiers.parquet").to_pydict()
    assert len(rows) == sum(entry["plans"] for entry in again["entries"])
    assert columns["plan"] == [row["plan"] for row in rows]
    assert columns["time_s"] == [float(row["time_s"]) for row in rows]


@pytest.mark.slow
def test_a_batch_that_is_killed_ends_with_the_same_report(
    tapestry: Run, batch: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    undisturbed = tapestry(
        "tune",
        batch,
        "--islands",
        1,
        "--quiet",
        "--json",
        "--database-url",
        f"sqlite:///{tmp_path / 'other.db'}",
    ).json
    url = f"sqlite:///{tmp_path / 'killed.db'}"
    command = [*COMMAND, "tune", str(batch), "--islands", "1", "--quiet", "--json", "--database-url", url]
    for k in range(5):
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
        time.sleep(1.5 + 0.7 * k)
        process.send_signal(signal.SIGKILL)
        process.wait()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr  # the model that is missing
    assert outcome(json.loads(done.stdout)) == outcome(undisturbed)


@pytest.mark.slow
def test_what_an_interrupted_entry_found_is_kept(
    batch: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    batch.write_text(FILE.replace("evaluations = 1500", "seconds = 60"))
    url = f"sqlite:///{tmp_path / 'interrupted.db'}"
    command = [*COMMAND, "tune", str(batch), "--islands", "1", "--json", "--database-url", url]
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        assert any(b"plans evaluated" in line for line in iter(process.stderr.readline, b""))
        os.killpg(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    entries = json.loads(printed)["entries"]
    assert [entry["status"] for entry in entries] == ["cancelled", *["pending"] * 7]
    assert (entries[0]["stopped"], entries[0]["evaluations"] > 0) == ("cancelled", True)
    with closing(Store(url)) as store:
        assert len(store.runs.find(entries[0]["run"]).frontier) == entries[0]["plans"] > 0


def test_a_batch_ends_where_its_cluster_is_lost(
    tapestry: Run, batch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path / 'lost.db'}"
    outcome_of = tune.search_and_check

    def lost(*given: Any) -> Any:
        found = outcome_of(*given)
        return replace(found, result=replace(found.result, stopped=WORKERS_LOST))

    with monkeypatch.context() as patched:
        patched.setattr(tune, "search_and_check", lost)
        answer = tapestry("tune", batch, "--islands", 1, "--json", "--database-url", url)
    assert answer.code == 1
    entries = answer.json["entries"]
    assert [entry["status"] for entry in entries] == ["failed", *["pending"] * 7]
    assert "lost all its workers" in entries[0]["problem"] and entries[0]["plans"] > 0
    assert entries[0]["stopped"] == WORKERS_LOST
    again = tapestry("tune", batch, "--islands", 1, "--json", "--quiet", "--database-url", url).json
    assert [entry["status"] for entry in again["entries"]] == ["succeeded"] * 4 + ["failed"] * 4
    assert not any(entry["reused"] for entry in again["entries"])


def test_a_report_that_cannot_be_written_is_refused_before_the_first_run(tapestry: Run, batch: Path) -> None:
    assert "the report cannot be written" in complaint(tapestry("tune", batch, "--out", batch))


def test_a_report_without_plans_has_its_columns(tapestry: Run, batch: Path) -> None:
    batch.write_text(FILE.replace('"two_layers.json", ', ""))
    (batch.parent / "batch.report").mkdir()
    (batch.parent / "batch.report/frontiers.parquet").write_bytes(b"of an earlier batch")
    assert tapestry("tune", batch, "--islands", 1, "--quiet").code == 1
    lines = (batch.parent / "batch.report/frontiers.csv").read_text().splitlines()
    assert lines == [
        "model,mesh,seed,run,plan,devices,micro_batches,stages,schedule,recomputed_blocks,offloaded_bytes"
    ]
    assert not (batch.parent / "batch.report/frontiers.parquet").exists()


def test_sizes_and_seeds_make_entries_in_order() -> None:
    batch = batch_of(
        {
            "models": ["a.onnx", "b.onnx"],
            "meshes": ["dgx-h100"],
            "seeds": [3, 1],
            "dimensions": {"batch": [1, 8], "token": [64]},
            "budget": {"seconds": 6},
            "objectives": ["time_s"],
        }
    )
    entries = batch.entries()
    assert [(e.model, dict(e.dimensions), e.options.seed) for e in entries[:4]] == [
        ("a.onnx", {"batch": 1, "token": 64}, 3),
        ("a.onnx", {"batch": 1, "token": 64}, 1),
        ("a.onnx", {"batch": 8, "token": 64}, 3),
        ("a.onnx", {"batch": 8, "token": 64}, 1),
    ]
    assert [e.number for e in entries] == list(range(8))
    assert {(e.options.seconds, e.options.objectives) for e in entries} == {(6, ("time_s",))}
    assert str(entries[-1]) == "b.onnx on dgx-h100, batch=8, token=64, seed 1"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "models: is missing; meshes: is missing"),
        ("models = ['a']\nmeshes = []", "meshes: expected a list with at least one member, not []"),
        (
            "models = ['a']\nmeshs = ['b']\nmeshes = ['b']",
            "meshs: is no member of a batch; did you mean meshes?",
        ),
        ("models = ['a', 'a']\nmeshes = ['b']", "models[1]: 'a' is there twice"),
        ("models = ['a']\nmeshes = ['b']\nseed = 3", "seed: is no member of a batch; write seeds = [0, 1]"),
        (
            "models = ['a']\nmeshes = ['b']\nseeds = [true, -1]",
            "seeds[0]: expected a whole number of at least 0",
        ),
        (
            "models = ['a']\nmeshes = ['b']\n[budget]\nsecond = 4",
            "budget.second: limits nothing; did you mean",
        ),
        (
            "models = ['a']\nmeshes = ['b']\n[budget]\nseconds = 0",
            "budget.seconds: expected a number above 0, not 0",
        ),
        (
            "models = ['a']\nmeshes = ['b']\n[dimensions]\nn = [0]",
            "dimensions.n[0]: expected a whole number",
        ),
        (
            "models = ['a']\nmeshes = ['b']\nseeds = [0, 9223372036854775808]",
            "seeds[1]: expected a whole number",
        ),
        (
            "models = ['a']\nmeshes = ['b']\n[budget]\nevaluations = 99999999999999999999999",
            "budget.evaluations: expected a whole number",
        ),
        ("models = [", "it is no TOML"),
    ],
)
def test_files_that_are_no_batch_are_refused(tapestry: Run, tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BatchError):
        read_batch(path)
    answer = tapestry("tune", path)
    assert answer.code == 2
    assert message in complaint(answer)
    assert not os.path.exists(tmp_path / "bad.report")


def test_a_batch_that_is_not_there_is_named(tapestry: Run, tmp_path: Path) -> None:
    answer = tapestry("tune", tmp_path / "none.toml")
    assert "none.toml: it cannot be read: No such file" in complaint(answer)


@pytest.mark.slow
def test_a_request_states_its_meshes_once(tapestry: Run, batch: Path) -> None:
    assert "--mesh: say which mesh" in complaint(tapestry("submit", batch.parent / "two_layers.json"))
    assert "give BATCH.toml alone" in complaint(tapestry("submit", batch, "--mesh", "dgx-h100"))
    unreachable = tapestry(
        "submit", batch.parent / "two_layers.json", "--mesh", "dgx-h100", "--url", "http://127.0.0.1:9"
    )
    assert unreachable.code != 0 and "the service does not answer" in complaint(unreachable)
