"""A service without workers and clients of it, and a worker's part done by hand."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tapestry.client import Client, Retries
from tapestry.optimizer.run.plan import BoundScope, LowerBound
from tapestry.service.lifecycle import Event
from tapestry.service.provenance import versions
from tests.service.api.conftest import Service, serving
from tests.service.programs import verified
from tests.service.store.submissions import LEASE_S, plans, update_of

QUICK = Retries(attempts=4, first_s=0.01, most_s=0.02)
BOUND = LowerBound(8e-4, 1e-3, BoundScope(2, ("gpu.0 x gpu.1",), ("program",), ("all", "gpu:4"), (1,)))
OBJECTIVES = ("time_s", "peak_memory_bytes")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with serving(tmp_path) as running:
        yield running


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.address, retries=QUICK) as opened:
        yield opened


def work(service: Service, event: Event = "finished", stopped: str = "budget") -> str:
    """Do the oldest waiting run as a worker does, with two plans, and return its id."""
    now = datetime.now(UTC)
    job = service.store.jobs.claim("ada", now, LEASE_S)
    assert job is not None
    service.store.jobs.begin(job, now, LEASE_S, islands=2, prior="none", versions=versions(), host={})
    found = plans((1e-3, 2**30), (2e-3, 2**20))
    service.store.jobs.checkpoint(job, now, LEASE_S, update_of(found))
    for plan in found:
        service.store.jobs.verified(job, now, LEASE_S, plan.id, verified(plan), None)
    service.store.jobs.foresee(job, now, LEASE_S, {"time_s": BOUND.to_json()}, {"time_s": 0.0025}, ())
    problem = {"title": "No feasible plan", "detail": "none fits"} if event == "failed" else None
    service.store.jobs.end_run(job, now, event, stopped=stopped, problem=problem)
    return job.subject
