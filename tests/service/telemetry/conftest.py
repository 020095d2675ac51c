"""A store for tests of what is reported of jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tapestry.service.store import Store
from tests.service.databases import file_with_tables


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(file_with_tables(tmp_path / "store.db"))
    yield opened
    opened.close()
