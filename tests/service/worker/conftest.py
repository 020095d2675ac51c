"""Fixtures of a store and an inline worker in this process, so that tests can stop jobs where they like."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer.run.options import RunOptions
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.service.store import RunRequest, Store, mesh_to_document
from tapestry.service.worker.heartbeat import ClaimedJob
from tapestry.service.worker.searching import SearchJob
from tapestry.teg.graph import Graph
from tests.service.databases import file_with_tables

LEASE_S = 60.0
OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes", "energy_j")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(file_with_tables(tmp_path / "worker.db"))
    yield opened
    opened.close()


class Bench:
    """A client that requests runs, and does them as a worker would."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.draining = threading.Event()

    def ask(self, graph: Graph, **requested: Any) -> str:
        """Queue a run and return its id."""
        now = datetime.now(UTC)
        usual = {"objectives": OBJECTIVES, "islands": 1}
        if not {"seconds", "evaluations"} & set(requested):
            usual["evaluations"] = 20_000
        mesh = requested.pop("mesh", mesh_to_document(load_mesh("dgx-h100")))
        options = RunOptions(**{**usual, **requested})
        request = RunRequest(self.store.graphs.save(graph, now).id, mesh, options)
        return self.store.runs.submit(request, now).id

    def claim(self, owner: str = "worker") -> ClaimedJob:
        job = self.store.jobs.claim(owner, datetime.now(UTC), LEASE_S)
        assert job is not None
        return ClaimedJob(job, LEASE_S, self.draining)

    def do(self, held: ClaimedJob) -> None:
        SearchJob(self.store, held, InlineExecutor(), islands=1, checkpoint_s=0.0).do()

    def run(self, graph: Graph, **requested: Any) -> str:
        """Do a run from the request to its end."""
        run_id = self.ask(graph, **requested)
        self.do(self.claim())
        return run_id


@pytest.fixture
def bench(store: Store) -> Bench:
    return Bench(store)


def plans(store: Store, run_id: str) -> dict[str, dict[str, float]]:
    """Return the costs of the plans on a run's frontier, by their ids."""
    return {plan.id: dict(plan.cost) for plan in store.runs.frontier(run_id)}


def falls(store: Store, run_id: str) -> list[str]:
    """Return what falls in the history of a run, over all its attempts, of what never should.

    The archive keeps one of several plans that count as equal, so the hypervolume may fall by a trace.
    """
    history = store.runs.history(run_id)
    traces = {"seconds": 0.0, "evaluations": 0.0, "hypervolume": 1e-4}
    return [
        f"{name} from {before[name]} to {after[name]}"
        for before, after in pairwise(history)
        for name, trace in traces.items()
        if after[name] < before[name] - trace
    ]


def values(costs: dict[str, dict[str, float]]) -> np.ndarray:
    """Return the costs `(plans, objectives)` of plans."""
    return np.array([[cost[name] for name in OBJECTIVES] for cost in costs.values()])
