"""Tests of the checks of a run by its worker: what a deadline leaves out, what is announced."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tapestry.optimizer.analysis.frontier_verification import TimedVerifier
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.service.verdicts import count_verdicts, unchecked_reason
from tapestry.service.worker import run_checks, searching
from tapestry.service.worker.run_checks import RunChecks, run_deadline
from tapestry.service.worker.searching import SearchJob
from tests.optimizer.clocks import CountingClock, SetClock
from tests.service.programs import two_layers
from tests.service.worker.conftest import Bench


class EndedSoon(RunChecks):
    """Checks whose time is over after a few plans."""

    def do(self, pool: Any, deadline: Any, verifier: Any) -> None:
        at_once = TimedVerifier(verifier.mesh, None, SetClock(), SetClock())
        super().do(pool, Deadline(2.5, CountingClock()), at_once)


def test_plans_past_the_deadline_are_marked_in_the_store(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check a run with an hour for its search, and hardly any time for its checks."""
    monkeypatch.setattr(searching, "RunChecks", EndedSoon)
    run_id = bench.run(two_layers(width=256), evaluations=3000, deadline_seconds=3600.0)

    run = bench.store.runs.get(run_id)
    frontier = bench.store.runs.frontier(run_id)
    counts = count_verdicts(plan.verified for plan in frontier)
    assert (run.status, run.options.deadline_seconds) == ("succeeded", 3600.0)
    assert 0 < counts["verified"] < len(frontier)
    assert counts["verified"] + counts["unchecked"] == len(frontier)
    assert unchecked_reason(run.options, run.stopped, counts) == "the deadline"
    fastest = min(frontier, key=lambda plan: (plan.cost["time_s"], plan.cost["peak_memory_bytes"], plan.id))
    assert fastest.verified is not None


@pytest.mark.slow
def test_an_execution_is_announced_with_its_seconds(bench: Bench) -> None:
    run_id = bench.run(two_layers(width=256), evaluations=3000)
    executing = [e.data for e in bench.store.runs.events(run_id) if e.kind == "executing"]
    assert [e["number"] for e in executing] == list(range(1, len(executing) + 1))
    assert executing and all(e["count"] == len(executing) and e["seconds"] >= 0 for e in executing)


@pytest.mark.parametrize(
    ("attempt", "clock_s", "spent_s"),
    [(1, 3600, 0), (2, 60, 60), (2, -3600, 0)],
    ids=["first", "next", "back"],
)
def test_a_deadline_counts_from_the_first_claim(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, attempt: int, clock_s: int, spent_s: int
) -> None:
    bench.ask(two_layers(width=256), deadline_seconds=100.0)
    held = bench.claim()
    task = SearchJob(bench.store, held, InlineExecutor(), 1, 0.0)._task
    later = bench.store.runs.get(held.job.subject).started_at + timedelta(seconds=clock_s)  # type: ignore[operator]
    monkeypatch.setattr(run_checks, "datetime", type("Later", (), {"now": staticmethod(lambda _: later)}))
    deadline = run_deadline(bench.store, replace(held.job, attempt=attempt), task)
    assert deadline is not None
    assert deadline.left_s == pytest.approx(100.0 - spent_s - 5.0, abs=0.5), "five seconds are for storing"
