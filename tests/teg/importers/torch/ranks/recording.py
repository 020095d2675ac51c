"""A process that records modules for PyTorch, one after the other: PyTorch is loaded once for all tests."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.teg.evaluate import evaluate
from tapestry.teg.importers.torch.ranks.joining import join, output_name
from tapestry.teg.importers.torch.ranks.process import recorded
from tapestry.teg.importers.torch_import import import_listing
from tapestry.teg.interface import pack_inputs, unpack_outputs


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


def outputs(ranks: Sequence[Mapping[str, Any]], given: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compute output `y` of every rank that has one, from what each is given as its only source."""
    graph = import_listing(join(ranks, "module"))
    sources = [block.site for block in graph.sources if block.outputs[0] not in graph.data]
    named = {site: given[int(site[-1])] for site in sources}
    found = unpack_outputs(graph, evaluate(graph, pack_inputs(graph, named)))
    return [found[name] for rank in range(len(ranks)) if (name := output_name("y", rank)) in found]


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
