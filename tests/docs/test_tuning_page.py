"""Tests of the page about batches: its batch runs as it stands, here and on a service, and its block for Python."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.setting import find_models
from tapestry.client import Client
from tests.docs.test_docs import ROOT, blocks
from tests.service.conftest import Run, tapestry  # noqa: F401  # a fixture
from tests.service.processes import Service, free_port

pytestmark = pytest.mark.slow
PAGE = ROOT / "docs" / "tuning.md"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TAPESTRY_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    (text,) = blocks(PAGE, "ini")
    path = tmp_path / "night.toml"
    path.write_text(text)
    return path


def test_the_batch_of_the_page_runs_as_it_stands(tapestry: Run, batch: Path) -> None:  # noqa: F811
    answer = tapestry("tune", batch, "--islands", 1, "--json")
    assert answer.code == 0, answer.err
    entries = answer.json["entries"]
    assert [(entry["mesh"], entry["status"], entry["reused"]) for entry in entries] == [
        ("dgx-h100", "succeeded", False),
        ("2x-dgx-h100", "succeeded", False),
    ]
    assert "2 of 2: gpt2_small_b1_s1024 on 2x-dgx-h100, seed 0 took" in answer.err
    for entry in entries:
        shown = tapestry("show", entry["run"], "--json").json
        for name, best in entry["best"].items():
            assert best["value"] == min(plan["cost"][name] for plan in shown["frontier"])
            assert entry["bounds"][name]["bound"] <= best["value"] * (1 + 1e-9)
    files = answer.json["files"]
    with Path(files["entries.csv"]).open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["run"], row["objective"], float(row["best"])) for row in rows] == [
        (entry["run"], name, best["value"]) for entry in entries for name, best in entry["best"].items()
    ]
    page = Path(files["html"]).read_text()
    assert all(entry["run"] in page for entry in entries)


def test_the_batch_runs_on_a_cluster_of_two_local_workers(
    tapestry: Run,  # noqa: F811
    batch: Path,
    tmp_path: Path,
) -> None:
    pytest.importorskip("distributed")
    (commands,) = blocks(PAGE, "sh")
    script = commands.replace("8786", str(free_port()))
    for name, module in (("dask", "dask"), ("tapestry", "tapestry.service.cli")):
        script = re.sub(rf"^{name} ", f"{sys.executable} -m {module} ", script, flags=re.MULTILINE)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TAPESTRY_HOME": str(tmp_path)}
    with (tmp_path / "log").open("wb") as log:
        running = subprocess.Popen(
            ["bash", "-c", script.rstrip() + " --json > answer.json"],
            cwd=batch.parent,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        assert running.wait(300) == 0, (tmp_path / "log").read_text()
    finally:
        os.killpg(running.pid, signal.SIGTERM)
    entries = json.loads((tmp_path / "answer.json").read_text())["entries"]
    assert [entry["status"] for entry in entries] == ["succeeded", "succeeded"]
    for entry in entries:
        shown = tapestry("show", entry["run"], "--json").json
        assert (shown["islands"], shown["evaluations"] >= 1500) == (2, True)


def test_a_service_takes_programs_and_batches(
    tapestry: Run,  # noqa: F811
    batch: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tiny = find_models(["tiny_gpt2_small_b1_s1024"])[0]
    (tmp_path / "model.onnx").symlink_to(tiny)
    batch.write_text(batch.read_text().replace("gpt2_small_b1_s1024", "model.onnx"))
    with Service(f"sqlite:///{tmp_path / 'service.db'}", tmp_path / "log", "--islands", "1") as service:
        answer = tapestry("submit", batch, "--url", service.address, "--wait", "--json")
        assert answer.code == 0, answer.err
        sent = answer.json
        assert [(entry["model"], entry["mesh"], entry["status"]) for entry in sent["entries"]] == [
            ("model.onnx", "dgx-h100", "succeeded"),
            ("model.onnx", "2x-dgx-h100", "succeeded"),
        ]
        again = tapestry("submit", batch, "--url", service.address, "--json").json
        assert [entry["run"] for entry in again["entries"]] == [entry["run"] for entry in sent["entries"]]
        for entry in sent["entries"]:
            plans = service.get(f"/v1/runs/{entry['run']}/frontier")["plans"]
            assert entry["best"]["time_s"] == min(plan["cost"]["time_s"] for plan in plans)

        (code,) = blocks(PAGE, "python3")
        names: dict[str, Any] = {"Client": Client, "address": service.address}
        monkeypatch.chdir(tmp_path)
        exec(compile(code.replace("seconds=60", "evaluations=400"), str(PAGE), "exec"), names)
        assert [entry["seed"] for entry in names["entries"]] == [0, 1, 0, 1]
        cancelled = service.http.post(f"/v1/batches/{names['batch']['id']}/cancel")
        assert cancelled.status_code == 202
        mixed = {"graphs": [names["graph"].id, "0" * 32], "meshes": ["dgx-h100", "nowhere"], "seeds": [0]}
        made = service.http.post("/v1/batches", json=mixed)
        assert made.status_code == 202
        problems = [entry["problem"] for entry in made.json()["entries"]]
        assert problems[0] is None
        assert "there is no mesh 'nowhere'" in problems[1]["detail"]
        assert "submit it first" in problems[2]["detail"]
        for wrong, pointer in (
            (mixed | {"seeds": [1, 1]}, "/seeds/1"),
            (mixed | {"graphs": ["0" * 32] * 2}, "/graphs/1"),
        ):
            refused = service.http.post("/v1/batches", json=wrong)
            assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, pointer)
        many = {"graphs": [f"{k:032x}" for k in range(20)], "seeds": [*range(1000)]}
        refused = service.http.post("/v1/batches", json=mixed | many)
        assert refused.status_code == 422 and "these are 40,000 runs" in refused.text

        (tmp_path / "more.toml").write_text(
            'models = ["missing.onnx", "model.onnx"]\nmeshes = ["dgx-h100"]\n[budget]\nevaluations = 400\n'
        )
        partly = tapestry("submit", tmp_path / "more.toml", "--url", service.address, "--json", "--wait")
        assert partly.code == 1
        entries = {entry["model"]: entry for entry in partly.json["entries"]}
        assert entries["model.onnx"]["status"] == "succeeded"
        assert "models[0] 'missing.onnx'" in entries["missing.onnx"]["problem"]["detail"]
        listed = service.get("/v1/batches")["items"][1:]
        assert len(listed) == 4 and json.dumps(listed[0]["links"]) == json.dumps(made.json()["links"])
