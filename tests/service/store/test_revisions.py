"""Tests of revisions: whatever changes what is shown of a run raises its revision, and the database's counter."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tapestry.service.store import Job, NewExecution, Store
from tests.service.programs import finished_run, two_layers, verified
from tests.service.store.submissions import LEASE_S, later, plans, update_of, writes_of


def shown(store: Store, run_id: str) -> Any:
    """Return all that is shown of a run and of its frontier."""
    return store.runs.details(run_id), store.runs.frontier(run_id)


def revision(store: Store, run_id: str) -> int:
    return store.run_watch.revisions([("default", run_id)])["default", run_id]


WRITES = ("release", "phase", "begin", "checkpoint", "foresee", "recost", "verified", "end_run")


@pytest.mark.parametrize("write", WRITES)
def test_every_write_of_a_worker_that_shows_raises_the_revision(store: Store, job: Job, write: str) -> None:
    store.jobs.checkpoint(job, later(1), LEASE_S, update_of(plans((5e-4, 512), (4e-4, 1024))))
    store.jobs.phase(job, later(2), LEASE_S, "verifying")
    before, number = shown(store, job.subject), revision(store, job.subject)
    writes_of(job, later(3))[write](store)
    assert shown(store, job.subject) != before
    assert revision(store, job.subject) > number


def test_no_write_of_a_worker_is_left_out(job: Job) -> None:
    assert {*writes_of(job, later(1))} - {*WRITES} == {"renew"}


def test_what_shows_nothing_leaves_the_revision(store: Store, job: Job) -> None:
    before, number = shown(store, job.subject), revision(store, job.subject)
    store.jobs.renew(job, LEASE_S)
    assert (shown(store, job.subject), revision(store, job.subject)) == (before, number)


def test_a_request_to_cancel_raises_the_revision(store: Store, job: Job) -> None:
    number = revision(store, job.subject)
    assert store.runs.request_cancel(job.subject, later(2)).cancel_requested
    assert revision(store, job.subject) > number


def test_another_priority_raises_the_revision(store: Store, run_id: str) -> None:
    number = revision(store, run_id)
    assert store.runs.change(run_id, priority=3).priority == 3
    assert revision(store, run_id) > number


def test_an_execution_that_checks_a_plan_of_an_ended_run_raises_its_revision(store: Store) -> None:
    run_id = store.runs.save_finished(finished_run(two_layers()))
    plan = store.runs.frontier(run_id)[0]
    store.executions.submit(plan.key, backend="numpy", values=True, seed=0, created_at=later(1))
    job = store.jobs.claim("ada", later(2), LEASE_S, ("execution",))
    assert job is not None
    number = revision(store, run_id)
    other = {
        **verified(finished_run(two_layers()).result.frontier[0]),
        "values": {"executed": True, "ok": True},
    }
    execution = NewExecution("numpy", 0, {}, other, datetime.now(UTC), None)
    store.jobs.end_execution(job, later(3), "finished", execution=execution, verified={plan.key: other})
    assert store.runs.frontier(run_id)[0].verified == other
    assert revision(store, run_id) > number


def test_runs_that_are_not_there_have_none(store: Store, run_id: str) -> None:
    there, others = ("default", run_id), [("default", "0123456789ab"), ("another", run_id)]
    assert store.run_watch.revisions([there, *others]) == {there: 1}
    assert store.run_watch.revisions([]) == {}


def test_a_file_counts_what_anybody_commits(store: Store, store_url: str, job: Job) -> None:
    counted = store.changes.now()
    if not store_url.startswith("sqlite"):
        assert counted is None
        return
    assert counted is not None
    shown(store, job.subject)
    assert store.changes.now() == counted, "nothing was written"
    store.jobs.renew(job, LEASE_S)
    own = store.changes.now()
    other = Store(store_url)
    other.jobs.renew(job, LEASE_S)
    other.close()
    assert len({counted, own, store.changes.now()}) == 3
    store.changes.close()
    assert store.changes.now() not in (counted, own), "another connection counts anew"
