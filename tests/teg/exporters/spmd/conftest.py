"""The group of processes that all tests of exported programs share."""

from collections.abc import Iterator

import pytest

from tests.teg.exporters.spmd.group import ProcessGroup
from tests.teg.exporters.spmd.jax_process import JaxProcess


@pytest.fixture(scope="session")
def processes() -> Iterator[ProcessGroup]:
    """Start four ranks, once for all tests."""
    pytest.importorskip("torch")
    group = ProcessGroup()
    yield group
    group.close()


@pytest.fixture(scope="session")
def jax_process() -> Iterator[JaxProcess]:
    """Start a process with eight virtual devices, once for all tests."""
    pytest.importorskip("jax")
    process = JaxProcess()
    yield process
    process.close()
