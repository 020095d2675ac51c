"""Tests of requests for runs: acknowledged once, limited, safe to repeat, and cancelled while they last."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tapestry.service.store import (
    AlreadyEnded,
    Idempotency,
    Job,
    KeyReused,
    NewBatchEntry,
    QueueFull,
    QueueLimits,
    Store,
    StoreError,
    UnknownId,
)
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.clocks import ManualClock, taken_over
from tests.service.store.submissions import LEASE_S, contents, later, plans, request_for, update_of

KEY = Idempotency("POST /v1/runs", "a-key-of-the-client", "f" * 64)


def test_what_was_requested_comes_back(store: Store, graph_id: str) -> None:
    requested = request_for(
        graph_id,
        constraints=("peak_memory_bytes<=1GiB",),
        evaluations=2**40,
        seed=2**62,
        islands=3,
        rules=("fuse_cells",),
        pins={"y": "[gpu.0, -]"},
        start_from="0123456789ab",
        compute_dtype="bf16",
        devices="all",
        inputs="replicated",
        outputs="gathered",
        verify="none",
    )
    submitted = store.runs.submit(requested, NOON)
    assert (len(submitted.id), submitted.is_replay) == (12, False)
    assert store.runs.request(submitted.id) == requested
    least = request_for(graph_id)
    assert store.runs.request(store.runs.submit(least, NOON).id) == least


def test_a_queued_run_says_so(store: Store, run_id: str) -> None:
    summary = store.runs.get(run_id)
    assert (summary.status, summary.phase, summary.attempt, summary.cancel_requested) == (
        "queued",
        "queued",
        0,
        False,
    )
    assert (summary.created_at, summary.started_at, summary.ended_at) == (NOON, None, None)
    (event,) = store.runs.events(run_id)
    assert (event.number, event.kind, event.created_at) == (1, "status", NOON)
    assert event.data == {"status": "queued", "phase": "queued", "attempt": 0, "problem": None}


def test_a_run_of_no_graph_is_refused(store: Store) -> None:
    with pytest.raises(UnknownId, match="there is no graph 'nonesuch'"):
        store.runs.submit(request_for("nonesuch"), NOON)
    assert (store.runs.page(), store.jobs.counts()["queued"]) == ((), 0)


def test_the_same_request_under_the_same_key_is_one_run(store: Store, graph_id: str) -> None:
    first = store.runs.submit(request_for(graph_id), NOON, idempotency=KEY)
    again = store.runs.submit(request_for(graph_id), later(60), idempotency=KEY)
    assert (again.id, again.is_replay) == (first.id, True)
    assert [run.id for run in store.runs.page()] == [first.id]
    assert store.jobs.counts()["queued"] == 1


def test_a_repeated_request_is_answered_even_when_the_queue_is_full(store: Store, graph_id: str) -> None:
    first = store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(1, 100), idempotency=KEY)
    again = store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(1, 100), idempotency=KEY)
    assert (again.id, again.is_replay) == (first.id, True)


def test_a_key_cannot_mean_two_requests(store: Store, graph_id: str) -> None:
    store.runs.submit(request_for(graph_id), NOON, idempotency=KEY)
    other = Idempotency(KEY.scope, KEY.key, "0" * 64)
    with pytest.raises(KeyReused, match="'a-key-of-the-client' was used before for another request"):
        store.runs.submit(request_for(graph_id), NOON, idempotency=other)
    assert len(store.runs.page()) == 1


def test_keys_of_different_scopes_have_nothing_to_do_with_each_other(store: Store, graph_id: str) -> None:
    store.runs.submit(request_for(graph_id), NOON, idempotency=KEY)
    other = Idempotency("another scope", KEY.key, "0" * 64)
    assert not store.runs.submit(request_for(graph_id), NOON, idempotency=other).is_replay


def test_a_key_is_forgotten_after_a_day(store: Store, graph_id: str) -> None:
    first = store.runs.submit(request_for(graph_id), NOON, idempotency=KEY)
    day = timedelta(hours=24)
    assert store.runs.submit(request_for(graph_id), NOON + day, idempotency=KEY).is_replay
    late = store.runs.submit(request_for(graph_id), NOON + day + timedelta(seconds=1), idempotency=KEY)
    assert not late.is_replay and late.id != first.id


def test_a_request_that_was_refused_does_not_use_up_its_key(store: Store, graph_id: str) -> None:
    store.runs.submit(request_for(graph_id), NOON)
    with pytest.raises(QueueFull):
        store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(1, 100), idempotency=KEY)
    assert not store.runs.submit(request_for(graph_id), NOON, idempotency=KEY).is_replay


def test_one_request_sent_many_times_at_once_is_one_run(store: Store, graph_id: str) -> None:
    senders = 6
    barrier = threading.Barrier(senders)

    def send(_: int) -> str:
        barrier.wait()
        return store.runs.submit(request_for(graph_id), NOON, idempotency=KEY).id

    with ThreadPoolExecutor(senders) as pool:
        ids = set(pool.map(send, range(senders)))
    assert [run.id for run in store.runs.page()] == list(ids)


def test_a_full_queue_takes_no_more_until_somebody_claims(store: Store, graph_id: str) -> None:
    for _ in range(2):
        store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(2, 100))
    with pytest.raises(QueueFull, match="2 jobs of this tenant wait already"):
        store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(2, 100))
    assert store.jobs.claim("ada", later(1), LEASE_S) is not None
    store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(2, 100))
    assert store.jobs.counts()["queued"] == 2


def test_the_limit_holds_when_many_ask_at_once(store: Store, graph_id: str) -> None:
    senders = 8
    barrier = threading.Barrier(senders)

    def send(_: int) -> bool:
        barrier.wait()
        try:
            store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(3, 100))
        except QueueFull:
            return False
        return True

    with ThreadPoolExecutor(senders) as pool:
        assert sorted(pool.map(send, range(senders))) == [False] * 5 + [True] * 3


def test_executions_count_in_the_same_queue(store: Store, graph_id: str) -> None:
    plan = store.runs.find(store.runs.save_finished(finished_run(two_layers()))).frontier[0]
    store.executions.submit(
        plan.key, backend="dry", values=False, seed=0, created_at=NOON, queue_limits=QueueLimits(1, 100)
    )
    with pytest.raises(QueueFull):
        store.runs.submit(request_for(graph_id), NOON, queue_limits=QueueLimits(1, 100))


def test_a_run_of_higher_priority_goes_first(store: Store, graph_id: str) -> None:
    usual, low, high = (
        store.runs.submit(request_for(graph_id), later(at), priority=priority).id
        for at, priority in ((0, 0), (1, -10), (2, 10))
    )
    last = store.runs.submit(request_for(graph_id), later(3)).id
    assert store.runs.change(last, priority=5).priority == 5
    claimed = [store.jobs.claim("ada", later(9), LEASE_S) for _ in range(4)]
    assert [job.subject for job in claimed if job] == [high, last, usual, low]
    assert store.runs.change(high, priority=1).priority == 1  # for when it waits again
    assert claimed[0] is not None
    store.jobs.end_run(claimed[0], later(10), "finished", stopped="budget")
    assert store.runs.get(high).priority is None
    with pytest.raises(AlreadyEnded, match=f"run {high} has ended"):
        store.runs.change(high, priority=1)
    with pytest.raises(UnknownId):
        store.runs.change("nonesuch", priority=1)


def test_the_runs_of_a_batch_are_claimed_in_its_order(store: Store, graph_id: str) -> None:
    requests = [request_for(graph_id, seed=seed) for seed in range(5)]
    entries = [NewBatchEntry(graph_id, "dgx-h100", k, request) for k, request in enumerate(requests)]
    batch = store.batches.submit("five", entries, NOON).id
    claimed = [store.jobs.claim("ada", later(9), LEASE_S) for _ in entries]
    assert [job.subject for job in claimed if job] == [e.run_id for e in store.batches.entries(batch)]


def test_a_queued_run_is_cancelled_at_once(store: Store, run_id: str) -> None:
    summary = store.runs.request_cancel(run_id, later(5))
    assert (summary.status, summary.phase, summary.stopped) == ("cancelled", "done", "cancelled")
    assert summary.ended_at == later(5)
    assert [event.data["status"] for event in store.runs.events(run_id)] == ["queued", "cancelled"]
    assert store.jobs.claim("ada", later(6), LEASE_S) is None


def test_a_running_run_hears_that_it_should_end(store: Store, job: Job) -> None:
    summary = store.runs.request_cancel(job.subject, later(5))
    assert (summary.status, summary.cancel_requested) == ("running", True)
    assert store.runs.request_cancel(job.subject, later(6)).cancel_requested  # twice is as good as once
    assert store.jobs.renew(job, LEASE_S) is True
    store.jobs.end_run(job, later(8), "cancelled", stopped="cancelled")
    assert store.runs.get(job.subject).status == "cancelled"


def test_who_takes_over_a_run_hears_it_too(store: Store, clock: ManualClock, job: Job) -> None:
    store.runs.request_cancel(job.subject, later(5))
    taken = taken_over(store, clock, "bob", later(60))
    assert taken is not None and taken.cancel_requested


def test_a_run_given_back_and_cancelled_keeps_what_it_found(store: Store, job: Job) -> None:
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024))))
    store.jobs.release(job, later(3))
    assert store.runs.request_cancel(job.subject, later(4)).status == "cancelled"
    assert len(store.runs.frontier(job.subject)) == 1
    assert store.jobs.saved(job.subject) is None  # nobody will go on from there


@pytest.mark.parametrize("event", ["finished", "failed", "cancelled"])
def test_what_has_ended_cannot_be_cancelled(store: Store, job: Job, event: str) -> None:
    store.jobs.end_run(job, later(5), event, stopped="why")  # type: ignore[arg-type]
    before = contents(store, job.subject)
    with pytest.raises(AlreadyEnded, match=f"run {job.subject} has ended"):
        store.runs.request_cancel(job.subject, later(6))
    assert contents(store, job.subject) == before


def test_unknown_runs_are_reported(store: Store) -> None:
    asks = (
        store.runs.get,
        store.runs.request,
        store.runs.frontier,
        lambda run_id: store.runs.request_cancel(run_id, NOON),
    )
    for ask in asks:
        with pytest.raises(UnknownId, match="there is no run 'nonesuch'"):
            ask("nonesuch")
    assert issubclass(UnknownId, StoreError)
