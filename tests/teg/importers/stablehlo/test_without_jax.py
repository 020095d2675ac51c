"""Tests of an environment without JAX: nothing is loaded, and a caller that needs JAX is told what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tapestry.teg.importers import ImportFailure, from_jax, from_stablehlo
from tapestry.teg.importers.files import GraphFileError, read_program

TEXT = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\nreturn %x : tensor<2xf32>\n}"


def test_a_file_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib.mlir", None)
    (tmp_path / "program.mlir").write_text(TEXT)
    with pytest.raises(GraphFileError, match=r"pip install 'tapestry\[jax\]'") as failure:
        read_program(str(tmp_path / "program.mlir"))
    assert "\n" not in str(failure.value)


def test_a_function_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportFailure, match=r"pip install 'tapestry\[jax\]'"):
        from_jax(lambda x: x, 1.0)


def test_a_missing_file_is_reported_first() -> None:
    with pytest.raises(ImportFailure, match=r"there is no file 'nowhere\.mlir'"):
        from_stablehlo("nowhere.mlir")


def test_importing_the_importers_loads_no_jax() -> None:
    code = "import sys, tapestry.teg.importers; sys.exit(any(m.startswith('jax') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
