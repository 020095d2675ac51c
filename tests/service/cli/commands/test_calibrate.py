"""`tapestry calibrate` and `tapestry validate`: what they refuse, and a short run of both."""

from __future__ import annotations

from pathlib import Path

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


PRODUCTS = tuple((n, n, n, 1) for n in (32, 64, 128))


@pytest.mark.slow
def test_a_host_is_measured_and_predicts(
    tapestry: Run, document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch")
    small = {"ROWS": (4, 64, 512), "SORTED_ROWS": (), "CONVOLUTIONS": (), "PRODUCTS": PRODUCTS}
    for name, value in small.items():
        monkeypatch.setattr(f"tapestry.hardware.calibration.probes.{name}", value)
    here = tmp_path / "here.toml"
    found = tapestry("calibrate", here, "--seconds", 1, "--json").json
    assert found["file"] == str(here) and "elementwise.fp32" in found["kernels"]
    assert all(each["seconds"] > 0 for each in found["probes"].values())
    assert tapestry("mesh", "check", here).code == 0
    answer = tapestry("validate", document, "--mesh", here, "--seconds", 0, "--json").json
    (program,) = answer["programs"]
    assert program["measured_s"] > 0 and program["predicted_s"] > 0
    assert "predicted for this-machine" in tapestry("validate", document, "--mesh", here, "--seconds", 0).out
