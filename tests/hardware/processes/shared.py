"""The processes that all tests of runs on processes share: those that are lost are started again."""

from collections.abc import Iterator

import pytest

from tapestry.hardware.processes import DeviceProcesses


@pytest.fixture(scope="session")
def device_processes() -> Iterator[DeviceProcesses]:
    pytest.importorskip("torch")
    with DeviceProcesses() as pool:
        yield pool
