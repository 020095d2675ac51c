"""Tests of `simulate --backend`: torch computes the same values, and counts are the same."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tapestry.hardware.simulator.backend import BACKENDS
from tapestry.teg import arrays
from tests.service.conftest import Run, complaint


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_backend_computes_the_same(tapestry: Run, document: Path, backend: str) -> None:
    pytest.importorskip(backend)
    plain = tapestry("simulate", document, "--mesh", "dgx-h100", "--json")
    found = tapestry("simulate", document, "--mesh", "dgx-h100", "--backend", backend, "--json")
    assert (found.code, found.json["backend"], plain.json["backend"]) == (0, backend, "numpy")
    assert found.json["verified"]["values"]["ok"]
    assert found.json["counts"] == plain.json["counts"]


def test_a_lost_device_is_found_again_in_torch(tapestry: Run, document: Path) -> None:
    pytest.importorskip("torch")
    options = ("--mesh", "dgx-h100", "--fail", "gpu:3@0.4", "--backend", "torch", "--json")
    ran = tapestry("simulate", document, *options)
    assert (ran.code, ran.json["disturbed"]["values"]["ok"]) == (0, True)


def test_a_library_that_is_not_installed_is_named(
    tapestry: Run, document: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tapestry.teg.arrays.torch_arrays", None)
    monkeypatch.setattr("tapestry.teg.arrays._torch", arrays._torch.__wrapped__)
    reason = complaint(tapestry("simulate", document, "--mesh", "dgx-h100", "--backend", "torch"))
    assert "pip install 'tapestry[torch]'" in reason
