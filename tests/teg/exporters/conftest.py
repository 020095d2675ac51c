"""The process in which all tests of exporters have XLA compile modules."""

from collections.abc import Iterator

import pytest

from tests.teg.exporters.xla import Xla


@pytest.fixture(scope="session")
def xla() -> Iterator[Xla]:
    """Start the process, once for all tests."""
    pytest.importorskip("jax")
    process = Xla()
    yield process
    process.close()
