"""Tests that the pages about the API and the command line describe every option of a run as the program does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.options import PAGES, with_table


@pytest.mark.parametrize(("page", "table"), PAGES.items(), ids=lambda value: getattr(value, "name", ""))
def test_tables_are_those_of_the_options(page: Path, table: Callable[[], str]) -> None:
    text = page.read_text()
    assert table() in text
    assert with_table(text, table) == text, "run `python -m tests.docs.options`, which writes the tables anew"
