"""The process with virtual devices that all tests of exporters share."""

from collections.abc import Iterator

import pytest

from tests.teg.exporters.jax_process import JaxProcess


@pytest.fixture(scope="session")
def jax_process() -> Iterator[JaxProcess]:
    """Start the process, once for all tests."""
    pytest.importorskip("jax")
    process = JaxProcess()
    yield process
    process.close()
