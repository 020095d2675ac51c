"""Tests that the pass for JAX runs what a service has found for its program, and finds it again the second time."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.examples.compiler_client.running import runs_of_pass

pytestmark = pytest.mark.slow
pytest.importorskip("jax")


def test_the_module_with_shardy_attributes_computes_what_jax_does(tmp_path: Path) -> None:
    options = ("--batch", "16", "--width", "256", "--seconds", "1")
    first, again = runs_of_pass("jax_pass", tmp_path, *options)
    assert "was searched" in first and "was there" in again
    assert first.partition("plan ")[2] == again.partition("plan ")[2]
    assert "on 8 devices, each with" in first
