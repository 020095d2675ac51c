"""Tests that the pass for PyTorch runs what a service has found for its module, twice: then the run is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.compiler_client.running import runs_of_pass

pytestmark = pytest.mark.slow
pytest.importorskip("torch")


def test_the_module_of_dtensors_computes_what_the_module_does(tmp_path: Path) -> None:
    options = ("--batch", "16", "--width", "128", "--seconds", "1")
    first, again = runs_of_pass("torch_pass", tmp_path, *options)
    assert "was searched" in first and "was there" in again
    assert first.partition("plan ")[2] == again.partition("plan ")[2]
    assert "up.weight: (" in first and "on each of 4 ranks" in first
