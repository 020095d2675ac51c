"""Inputs of the tests of the store: runs, checkpoints, and moments after noon."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from tapestry.hardware import load_mesh
from tapestry.optimizer import Plan, Progress, RunOptions
from tapestry.service.store import Job, RunRequest, RunUpdate, Store, mesh_to_document
from tests.service.programs import NOON, plan_by_hand, two_layers

LEASE_S = 15.0


def later(seconds: float) -> datetime:
    """Return a moment after noon, when everything here was queued."""
    return NOON + timedelta(seconds=seconds)


def request_for(graph_id: str, mesh: str = "dgx-h100", **requested: Any) -> RunRequest:
    """Build a request for a run of two objectives."""
    document = mesh_to_document(load_mesh(mesh))
    return RunRequest(
        graph_id, document, RunOptions(objectives=("time_s", "peak_memory_bytes"), seconds=10.0, **requested)
    )


def plans(*costs: tuple[float, int]) -> list[Plan]:
    """Build plans of these times and memories, all different."""
    return [plan_by_hand(two_layers(), time_s, memory_bytes) for time_s, memory_bytes in costs]


def update_of(
    added: Sequence[Plan] = (),
    removed: Sequence[str] = (),
    *,
    evaluations: int = 100,
    phase: str = "searching",
    rules: dict[str, tuple[int, int]] | None = None,
    refused: Sequence[dict[str, str]] = (),
    saved: bytes = b"state",
) -> RunUpdate:
    """Build the update that a worker writes after a second."""
    progress = Progress("searching", 1.0, evaluations, 9, 0.25, (1e-3, 1024.0), 0.1)
    return RunUpdate(saved, phase, progress, added, removed, rules or {"reshard": (evaluations, 3)}, refused)


def contents(store: Store, run_id: str) -> dict[str, Any]:
    """Return all that the store holds of a run except its lease: a refused write must not change it."""
    return {
        "run": store.runs.find(run_id),
        "events": store.runs.events(run_id),
        "saved": store.jobs.saved(run_id),
        "counts": store.jobs.counts(),
        "executions": [store.executions.of_plan(plan.key) for plan in store.runs.frontier(run_id)],
    }


def writes_of(job: Job, now: datetime) -> dict[str, Any]:
    """Return every write that a worker can do about a run, by name: each takes a store."""
    plan = plans((5e-4, 512))[0]
    return {
        "renew": lambda store: store.jobs.renew(job, LEASE_S),
        "release": lambda store: store.jobs.release(job, now),
        "phase": lambda store: store.jobs.phase(job, now, LEASE_S, "seeding"),
        "begin": lambda store: store.jobs.begin(
            job, now, LEASE_S, islands=4, prior="none", versions={"tapestry": "9"}, host={"cores": 9}
        ),
        "checkpoint": lambda store: store.jobs.checkpoint(job, now, LEASE_S, update_of([plan])),
        "foresee": lambda store: store.jobs.foresee(job, now, LEASE_S, {"time_s": {"bound": 1e-4}}, {}, ()),
        "recost": lambda store: store.jobs.recost(job, now, LEASE_S, {}, [plan.id]),
        "verified": lambda store: store.jobs.verified(job, now, LEASE_S, plan.id, {"sharding": {}}, None),
        "end_run": lambda store: store.jobs.end_run(job, now, "finished", stopped="budget"),
    }
