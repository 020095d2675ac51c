"""Tests that generated pages are those that their programs write, and that they hold no prose of anyone else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs import catalog, devices, rules
from tests.docs.generated import FOLDER, ROOT

PAGES = {**catalog.PAGES, **devices.PAGES, **rules.PAGES}
# `python -m benchmarks.rewriting` and `benchmarks.search` write these; tests/benchmarks compares them.
FROM_FIGURES = (FOLDER / "rewriting.md", FOLDER / "search.md")


@pytest.mark.parametrize(
    ("path", "build"), PAGES.items(), ids=lambda x: x.stem if isinstance(x, Path) else ""
)
def test_a_page_is_what_its_program_writes(path: Path, build: Callable[[], str]) -> None:
    assert path.read_text(encoding="utf-8") == build(), f"the first line of {path} names the program to run"


def test_generated_pages_lie_apart() -> None:
    assert set(FOLDER.iterdir()) == {*PAGES, *FROM_FIGURES}
    written = [p for p in (ROOT / "docs").rglob("*.md") if p.read_text().startswith("<!-- Written by ")]
    assert set(written) == set(FOLDER.iterdir())
