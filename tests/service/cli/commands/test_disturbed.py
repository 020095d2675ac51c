"""Tests of `simulate --fail` and `--slow`: a device is lost, or slow, and the outputs are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.conftest import Run, complaint


def test_outputs_survive_the_loss_of_a_device(tapestry: Run, document: Path) -> None:
    ran = tapestry("simulate", document, "--mesh", "dgx-h100", "--fail", "gpu:3@0.4", "--json")
    assert ran.code == 0
    found = ran.json["disturbed"]
    assert found["values"]["ok"]
    assert found["recovery"]["lost"] == [3]
    assert found["recovery"]["hosts"] != [3]
    assert found["time_s"] > ran.json["counts"]["time_s"]["counted"]
    text = tapestry("simulate", document, "--mesh", "dgx-h100", "--fail", "gpu:3@0.4").out
    assert "device 3, device" in text
    assert "disturbed outputs equal the unsharded reference: yes" in text


def test_a_slow_device_takes_longer(tapestry: Run, document: Path) -> None:
    ran = tapestry("simulate", document, "--mesh", "dgx-h100", "--slow", "gpu:1=3", "--dry", "--json").json
    assert ran["disturbed"]["time_s"] > ran["counts"]["time_s"]["counted"]
    assert ran["disturbed"]["recovery"] is None
    assert ran["disturbed"]["values"] is None


@pytest.mark.parametrize(
    ("options", "refusal"),
    [
        (("--fail", "gpu:8@0.4"), "must be axis:coordinate@moment"),
        (("--slow", "gpu:1=0.5"), "must be axis:coordinate=factor"),
        (("--fail", "gpu:1@0.4", "--steps", "2"), "leave --steps out"),
    ],
)
def test_bad_disturbances_are_refused(
    tapestry: Run, document: Path, options: tuple[str, ...], refusal: str
) -> None:
    assert refusal in complaint(tapestry("simulate", document, "--mesh", "dgx-h100", "--dry", *options))
