"""Tests that the examples in docstrings run."""

from __future__ import annotations

import doctest
import subprocess
import sys
from importlib import import_module

import pytest

MODULES = tuple(
    f"tapestry.teg.programs.{name}"
    for name in (
        *("cell", "gathering", "generators", "movement", "padding"),
        *("products", "program", "reductions", "scanning", "windows"),
    )
)


@pytest.mark.parametrize("name", MODULES)
def test_docstrings_run(name: str) -> None:
    failed, tried = doctest.testmod(import_module(name))
    assert tried and not failed


def test_writing_a_program_loads_no_framework() -> None:
    program = (
        "import sys, tapestry; p = tapestry.program(); p.output('y', p.input('x', 3) + 1); p.graph;"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert not {"onnx", "torch", "jax", "networkx", "numba"} & set(loaded)
    bare = subprocess.run(
        [sys.executable, "-c", "import sys, tapestry.teg; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout.split()
    assert not {"numpy", "tapestry.teg.programs"} & set(bare)
