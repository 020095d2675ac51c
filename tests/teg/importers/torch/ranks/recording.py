"""A process that records modules for PyTorch, one after the other: PyTorch is loaded once for all tests."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tapestry.teg.importers.torch.ranks.process import recorded


class RecordingProcess:
    """The process; `record` hands it a module, as the function of this name does."""

    def __init__(self) -> None:
        self.executor = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))

    def record(self, module: Path, ranks: int, backend: str = "gloo") -> list[Mapping[str, Any]]:
        """Return what every rank of a module does."""
        text = self.executor.submit(_record, str(module), ranks, backend).result(timeout=600)
        return recorded(module, json.loads(text))

    def close(self) -> None:
        """End the process."""
        self.executor.shutdown()


def _record(path: str, ranks: int, backend: str) -> str:
    from tapestry.teg.importers.torch.ranks.recorder import record_all

    return json.dumps(record_all(path, ranks, backend))


@pytest.fixture(scope="session")
def recording() -> Iterator[RecordingProcess]:
    """Start the process, once for all tests."""
    pytest.importorskip("torch")
    process = RecordingProcess()
    yield process
    process.close()
