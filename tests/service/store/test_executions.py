"""Tests of executions: queued for workers, or stored by the command line; counts, values and traces."""

from __future__ import annotations

import dataclasses

import pytest

from tapestry.service.store import (
    Idempotency,
    Job,
    KeyReused,
    LeaseLost,
    NewExecution,
    Store,
    StoredPlan,
    StoreError,
    UnknownId,
)
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.clocks import ManualClock, taken_over
from tests.service.store.submissions import LEASE_S, later

PROBLEM = {"code": "invalid_request", "title": "The request cannot be carried out", "detail": "too large"}


@pytest.fixture
def plan(store: Store) -> StoredPlan:
    """Save a plan that has not been executed, and return it."""
    return store.runs.find(store.runs.save_finished(finished_run(two_layers()))).frontier[1]


@pytest.fixture
def outcome() -> NewExecution:
    return next(iter(finished_run(two_layers()).executions.values()))


def queue(store: Store, plan: StoredPlan) -> str:
    submitted = store.executions.submit(
        plan.key, backend="numpy", values=True, seed=2**62, created_at=later(1)
    )
    assert len(submitted.id) == 12 and not submitted.is_replay
    return submitted.id


def claimed(store: Store, plan: StoredPlan) -> Job:
    execution_id = queue(store, plan)
    job = store.jobs.claim("ada", later(2), LEASE_S)
    assert job is not None and (job.kind, job.subject) == ("execution", execution_id)
    return job


def test_a_queued_execution_says_what_was_requested(store: Store, plan: StoredPlan) -> None:
    found = store.executions.get(queue(store, plan))
    assert (found.plan_key, found.plan_id, found.run_id) == (plan.key, plan.id, plan.run_id)
    assert (found.public_plan_id, found.status) == (plan.public_id, "queued")
    assert (found.backend, found.values, found.seed) == ("numpy", True, 2**62)
    assert (found.counts, found.verified, found.problem, found.has_trace) == (None, None, None, False)
    assert (found.created_at, found.ended_at) == (later(1), None)
    assert store.executions.trace(found.id) is None


def test_an_execution_lives_as_a_run_does(store: Store, plan: StoredPlan, outcome: NewExecution) -> None:
    job = claimed(store, plan)
    assert store.executions.get(job.subject).status == "running"
    store.jobs.release(job, later(3))
    assert store.executions.get(job.subject).status == "queued"
    again = store.jobs.claim("bob", later(4), LEASE_S)
    assert again == dataclasses.replace(job, owner="bob", attempt=2)
    assert again is not None
    assert store.jobs.renew(again, LEASE_S) is False
    store.jobs.end_execution(again, later(6), "finished", execution=outcome)
    ended = store.executions.get(job.subject)
    assert (ended.status, ended.ended_at, ended.has_trace) == ("succeeded", later(6), True)
    assert (ended.counts, ended.verified, ended.seed) == (outcome.counts, outcome.verified, 7)
    assert store.executions.trace(job.subject) == outcome.trace
    assert store.jobs.claim("cyd", later(600), LEASE_S) is None


def test_an_execution_that_fails_says_why(store: Store, plan: StoredPlan) -> None:
    job = claimed(store, plan)
    store.jobs.end_execution(job, later(6), "failed", problem=PROBLEM)
    ended = store.executions.get(job.subject)
    assert (ended.status, ended.problem, ended.counts, ended.has_trace) == ("failed", PROBLEM, None, False)
    assert (ended.backend, ended.values, ended.seed) == ("numpy", True, 2**62)


def test_whoever_lost_an_execution_changes_nothing(
    store: Store, clock: ManualClock, plan: StoredPlan, outcome: NewExecution
) -> None:
    job = claimed(store, plan)
    assert taken_over(store, clock, "bob", later(60)) is not None
    before = store.executions.get(job.subject)
    with pytest.raises(LeaseLost, match=f"execution {job.subject}"):
        store.jobs.renew(job, LEASE_S)
    with pytest.raises(LeaseLost):
        store.jobs.release(job, later(61))
    with pytest.raises(LeaseLost):
        store.jobs.end_execution(job, later(61), "finished", execution=outcome)
    assert store.executions.get(job.subject) == before


def test_executions_leave_the_events_of_their_run_alone(store: Store, plan: StoredPlan) -> None:
    before = store.runs.events(plan.run_id)
    store.jobs.end_execution(claimed(store, plan), later(6), "failed", problem=PROBLEM)
    assert store.runs.events(plan.run_id) == before


def test_the_same_request_under_the_same_key_is_one_execution(store: Store, plan: StoredPlan) -> None:
    key = Idempotency("executions", "a-key", "f" * 64)

    def submit(used: Idempotency) -> str:
        return store.executions.submit(
            plan.key, backend="dry", values=False, seed=0, created_at=NOON, idempotency=used
        ).id

    assert submit(key) == submit(key)
    assert len(store.executions.of_plan(plan.key)) == 1
    with pytest.raises(KeyReused):
        submit(dataclasses.replace(key, fingerprint="0" * 64))


def test_executions_of_the_command_line_are_stored_ended(
    store: Store, plan: StoredPlan, outcome: NewExecution
) -> None:
    first = store.executions.save(plan.key, dataclasses.replace(outcome, created_at=later(1)))
    dry = dataclasses.replace(outcome, backend="dry", seed=None, trace=None, created_at=later(2))
    second = store.executions.save(plan.key, dry)
    found = store.executions.of_plan(plan.key)
    assert [(e.id, e.status, e.backend, e.values, e.seed, e.has_trace) for e in found] == [
        (first, "succeeded", "numpy", True, 7, True),
        (second, "succeeded", "dry", False, None, False),
    ]
    assert store.executions.trace(first) == outcome.trace
    assert store.jobs.counts()["queued"] == 0


def test_executions_are_listed_oldest_first(store: Store, plan: StoredPlan) -> None:
    ids = {
        at: store.executions.submit(plan.key, backend="dry", values=False, seed=0, created_at=later(at)).id
        for at in (3, 1, 2)
    }
    assert [execution.id for execution in store.executions.of_plan(plan.key)] == [ids[1], ids[2], ids[3]]


def test_an_execution_of_no_plan_is_refused(store: Store, outcome: NewExecution) -> None:
    with pytest.raises(StoreError, match="there is no plan with key 999"):
        store.executions.save(999, outcome)
    with pytest.raises(StoreError, match="there is no plan with key 999"):
        store.executions.submit(999, backend="dry", values=False, seed=0, created_at=NOON)
    assert store.jobs.counts() == {"runs": {}, "executions": {}, "imports": {}, "queued": 0, "oldest": {}}


def test_executions_that_are_not_there_are_reported(store: Store) -> None:
    for ask in (store.executions.get, store.executions.trace):
        with pytest.raises(UnknownId, match="there is no execution 'nonesuch'"):
            ask("nonesuch")
