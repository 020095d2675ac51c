"""The group of processes that all tests of exported programs share."""

from collections.abc import Iterator

import pytest

from tests.teg.exporters.spmd.group import ProcessGroup


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessGroup]:
    """Start four ranks, once for all tests."""
    pytest.importorskip("torch")
    group = ProcessGroup()
    yield group
    group.close()
