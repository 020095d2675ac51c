"""Tests of the cache of compiled loops: compiled again exactly when something inlined has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tapestry.costmodel import compiled
from tapestry.costmodel.compiled import KEPT_VERSIONS, fingerprint, njit, stoppable

CONSTANTS = "FACTOR = {factor}\n\n\nclass Record:  # {comment}\n    pass\n"
INNER = """
from tapestry.costmodel.compiled import njit
from constants import FACTOR


@njit()
def scaled(x):
    {docstring}
    return FACTOR * x
"""
OUTER = """
from tapestry.costmodel import compiled
from tapestry.costmodel.compiled import njit

compiled.ANNOUNCED_AFTER_S = -1.0

from inner import scaled


@njit()
def total(x):
    return scaled(x) + LATER


LATER = 1

if __name__ == "__main__":
    print(total(10), sum(total.stats.cache_misses.values()))
"""


@pytest.fixture
def modules(tmp_path: Path):
    """Write three modules that inline one another, run the outer one, return its result and cache misses."""

    def run(factor: int = 2, comment: str = "plain", docstring: str = '"""Scale."""') -> tuple[int, int]:
        (tmp_path / "constants.py").write_text(CONSTANTS.format(factor=factor, comment=comment))
        (tmp_path / "inner.py").write_text(INNER.format(docstring=docstring))
        (tmp_path / "outer.py").write_text(OUTER)
        environment = {
            **os.environ,
            "TAPESTRY_CACHE": str(tmp_path / "cache"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        answer = subprocess.run(
            [sys.executable, "outer.py"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert answer.returncode == 0, answer.stderr
        result, misses = map(int, answer.stdout.split())
        assert ("compiling" in answer.stderr) == bool(misses)
        return result, misses

    run.folder = tmp_path / "cache" / "tapestry" / "loops"  # type: ignore[attr-defined]
    return run


@pytest.mark.slow
def test_a_constant_inlined_from_two_modules_away_compiles_anew(modules) -> None:
    assert modules() == (21, 1)
    assert modules() == (21, 0)
    assert modules(factor=3) == (31, 1)
    assert modules(factor=2) == (21, 0)


@pytest.mark.slow
def test_comments_docstrings_and_classes_compile_nothing(modules) -> None:
    modules()
    assert modules(comment="another") == (21, 0)
    assert modules(docstring='"""Scale a number."""\n    # Nothing else.') == (21, 0)


@pytest.mark.slow
def test_damaged_files_are_compiled_again(modules) -> None:
    modules()
    for path in modules.folder.iterdir():
        path.write_bytes(path.read_bytes()[:-20])
    assert modules() == (21, 1)


@pytest.mark.slow
def test_only_a_few_versions_are_kept(modules) -> None:
    for factor in range(KEPT_VERSIONS + 3):
        modules(factor=factor)
    kept = list(modules.folder.glob("__main__.total-*.nbi"))
    assert len(kept) == KEPT_VERSIONS
    assert len(list(modules.folder.glob("__main__.total-*.nbc"))) == KEPT_VERSIONS


def test_numba_is_left_as_it_is_for_other_code() -> None:
    program = (
        "import numba; before = numba.config.CACHE_DIR; import tapestry.costmodel.kernel;"
        "print(before == numba.config.CACHE_DIR)"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "True"


TABLE = np.arange(3)


def test_a_global_without_a_value_is_refused() -> None:
    uncountable = object()

    @njit()
    def loop(x):
        return x if uncountable is None else TABLE[0]

    with pytest.raises(
        TypeError, match="a compiled loop uses 'uncountable', a object: import the value itself"
    ):
        fingerprint(loop.py_func)


def test_a_stop_takes_effect_between_loops_and_what_was_begun_can_be_compiled_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAPESTRY_CACHE", str(tmp_path))

    @njit()
    def doubled(x):
        return 2 * x

    @njit()
    def summed(x):
        return doubled(x) + 1

    checks: list[int] = []

    def check() -> None:
        checks.append(1)
        if len(checks) == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError), stoppable(check):
        summed(3)

    assert len(checks) == 2
    assert (doubled.signatures, summed.signatures) == ([], [])
    assert summed(3) == 7
    assert len(checks) == 2


def test_long_compiling_is_announced_once_and_loops_inside_loops_count_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    monkeypatch.setattr(compiled, "monotonic", lambda: now[0])
    monkeypatch.setattr(compiled, "_announced", [])
    clock = compiled.CompileClock()
    for _ in range(2):
        clock.begin()
        now[0] += 1
        clock.begin()  # a loop that the first one calls
        now[0] += 1
        clock.end()
        clock.end()
        now[0] += 60  # something else
    assert clock.spent_s == 4 > compiled.ANNOUNCED_AFTER_S
    for _ in range(2):
        compiled.announce(clock)
    assert [record.getMessage() for record in caplog.records] == [compiled.COMPILING]
    monkeypatch.setattr(compiled, "_announced", [])
    compiled.announce(compiled.CompileClock())
    assert len(caplog.records) == 1, "a moment is not worth a word"
