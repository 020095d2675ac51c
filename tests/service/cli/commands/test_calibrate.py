"""`tapestry calibrate` and `tapestry validate`: what they refuse, and a short run of both."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from tapestry.service.cli.host_load import load_before
from tests.service.conftest import Run, complaint


def test_wrong_files_are_refused(tapestry: Run, tmp_path: Path) -> None:
    there = tmp_path / "there.toml"
    there.touch()
    assert "exists already" in complaint(tapestry("calibrate", there))
    assert "no such folder" in complaint(tapestry("calibrate", tmp_path / "nowhere" / "here.toml"))
    for option, value in (("--seconds", "-5"), ("--seconds", "nan"), ("--name", " ")):
        assert f"argument {option}: expected" in complaint(tapestry("calibrate", there, option, value))
    assert "ending in .toml" in complaint(tapestry("calibrate", tmp_path / "here.json"))


def test_programs_or_a_plan_are_validated_on_a_mesh(tapestry: Run, document: Path) -> None:
    assert "name programs in files, or one stored plan" in complaint(tapestry("validate"))
    both = tapestry("validate", document, "--plan", "a1")
    assert "name programs in files, or one stored plan" in complaint(both)
    assert "`tapestry calibrate FILE` measures this machine" in complaint(tapestry("validate", document))
    assert "a1" in complaint(tapestry("validate", "--plan", "a1"))


@pytest.mark.slow
def test_gpus_that_are_not_there_are_counted(
    tapestry: Run, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    wanted = "1 GPUs are needed, PyTorch finds 0 here: take --device cpu"
    assert wanted in complaint(tapestry("calibrate", tmp_path / "here.toml", "--device", "cuda"))
    assert wanted in complaint(tapestry("validate", document, "--mesh", "cpu-node", "--device", "cuda"))


def test_other_work_is_warned_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for load, threads, warns in ((0.2, 4, False), (2.0, 2, False), (2.6, 2, True), (9.0, 1, True)):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, 0.0, 0.0))
        assert load_before(threads) == load
        assert ("times will be too long" in capsys.readouterr().err) is warns


def test_more_threads_than_processors_are_refused(
    tapestry: Run, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    refused = "--threads 64: this program may use 2 processors; take --threads 2 at most"
    assert refused in complaint(tapestry("calibrate", tmp_path / "here.toml", "--threads", 64))
    assert refused in complaint(tapestry("validate", document, "--mesh", "cpu-node", "--threads", 64))


PRODUCTS = tuple((n, n, n, 1) for n in (32, 64, 128))


@pytest.mark.slow
def test_a_host_is_measured_and_predicts(
    tapestry: Run, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    small = {"ROWS": (4, 64, 512), "SORTED_ROWS": (), "CONVOLUTIONS": (), "PRODUCTS": PRODUCTS, "FUSED": {}}
    for name, value in {**small, "FUSED_PRODUCTS": (), "ATTENTIONS": ()}.items():
        monkeypatch.setattr(f"tapestry.hardware.calibration.probes.{name}", value)
    monkeypatch.setattr("tapestry.hardware.calibration.calibrate.FIT_S", 1.0)
    # A clock that goes on by being read: what fits into the limit does not depend on what else runs here.
    readings = count()
    clock = SimpleNamespace(monotonic=lambda: 0.05 * next(readings))
    monkeypatch.setattr("tapestry.service.cli.commands.calibrate.time", clock)
    here = tmp_path / "here.toml"
    refused = tapestry("calibrate", here, "--seconds", 0.1)
    assert refused.code == 2 and "0.1 s are too few for the probes that figures rest on" in refused.err
    assert not here.exists()
    found = tapestry("calibrate", here, "--seconds", 20, "--json").json
    assert "tdp_w" in found["unmeasured"] and "context_bytes" not in found["unmeasured"]
    assert found["file"] == str(here) and "elementwise.fp32" in found["kernels"]
    assert all(each["seconds"] > 0 for each in found["probes"].values())
    assert tapestry("mesh", "check", here).code == 0
    answer = tapestry("validate", document, "--mesh", here, "--seconds", 0, "--json").json
    (program,) = answer["programs"]
    assert program["measured_s"] > 0 and 0 < program["low_s"] < program["predicted_s"] < program["high_s"]
    assert answer["inside_90"] in (0.0, 1.0)
    printed = tapestry("validate", document, "--mesh", here, "--seconds", 0).out
    assert "90 % interval" in printed and "predicted for this-machine" in printed
    assert "of 1 measurement inside the interval" in printed


@pytest.mark.slow
def test_a_measured_time_is_kept_with_its_plan(tapestry: Run, document: Path) -> None:
    pytest.importorskip("torch")
    assert "name one by --plan" in complaint(tapestry("validate", document, "--mesh", "cpu-node", "--save"))
    found = tapestry("optimize", document, "--mesh", "cpu-node", "--evaluations", 50, "--json").json
    plan = found["frontier"][0]["id"]
    measured = tapestry("validate", "--plan", plan, "--seconds", 0, "--save", "--json").json["programs"][0]
    (kept,) = tapestry("show", plan, "--json").json["measurements"]
    assert kept["seconds"] == measured["measured_s"] and kept["repeat_error"] == measured["repeat_error"]
    assert re.fullmatch(r"2 ranks of 1 thread on .+, PyTorch \S+", kept["measured_on"])
    assert kept["measured_on"] in tapestry("show", plan).out
