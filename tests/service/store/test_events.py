"""Tests of events: numbered from 1 without gaps for any writers, and in the order in which they can be seen."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tapestry.service.store import AlreadyEnded, Job, Store
from tapestry.service.store.queue import append_event
from tapestry.service.store.sessions import Database
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of


def statuses(store: Store, run_id: str) -> list[tuple[str, str, int]]:
    return [
        (event.data["status"], event.data["phase"], event.data["attempt"])
        for event in store.runs.events(run_id)
        if event.kind == "status"
    ]


def test_the_whole_life_of_a_run_is_reported(store: Store, run_id: str) -> None:
    job = store.jobs.claim("ada", later(1), LEASE_S)
    assert job is not None
    store.jobs.phase(job, later(2), LEASE_S, "compiling")
    store.jobs.checkpoint(job, later(3), LEASE_S, update_of(plans((1e-3, 1024))))
    store.jobs.release(job, later(4))
    again = store.jobs.claim("bob", later(5), LEASE_S)
    assert again is not None
    store.jobs.checkpoint(again, later(6), LEASE_S, update_of(phase="verifying"))
    store.jobs.end_run(again, later(7), "failed", stopped="failed", problem={"code": "internal"})
    assert statuses(store, run_id) == [
        ("queued", "queued", 0),
        ("running", "queued", 1),
        ("running", "compiling", 1),
        ("running", "searching", 1),
        ("queued", "queued", 1),
        ("running", "queued", 2),
        ("running", "verifying", 2),
        ("failed", "done", 2),
    ]
    events = store.runs.events(run_id)
    assert [event.number for event in events] == list(range(1, len(events) + 1))
    assert [event.created_at for event in events] == sorted(event.created_at for event in events)
    assert events[-1].data["problem"] == {"code": "internal"}


def test_events_are_read_on_from_any_number(store: Store, job: Job) -> None:
    for second in range(2, 6):
        store.jobs.phase(job, later(second), LEASE_S, "seeding")
    everything = store.runs.events(job.subject)
    assert [event.number for event in everything] == [1, 2, 3, 4, 5, 6]
    assert store.runs.events(job.subject, after=4) == everything[4:]
    assert store.runs.events(job.subject, after=2, limit=2) == everything[2:4]
    assert store.runs.events(job.subject, after=6) == store.runs.events("nonesuch") == ()


def test_each_run_has_numbers_of_its_own(store: Store, graph_id: str, job: Job) -> None:
    other = store.runs.submit(request_for(graph_id), later(2)).id
    store.jobs.phase(job, later(3), LEASE_S, "seeding")
    assert [event.number for event in store.runs.events(other)] == [1]
    assert [event.number for event in store.runs.events(job.subject)] == [1, 2, 3]


def test_numbers_leave_no_gap_whoever_writes(store: Store, store_url: str, job: Job) -> None:
    """Check four writers at once; a reader who goes on from the last number it saw misses none."""
    writers, each = 4, 20
    barrier = threading.Barrier(writers + 1)
    is_over = threading.Event()

    def write(writer: int) -> list[int]:
        database = Database.at(store_url)
        barrier.wait()
        numbers = []
        for _ in range(each):
            with database.writing() as connection:
                numbers.append(append_event(connection, job.subject, "status", writer, later(2)))
        database.engine.dispose()
        return numbers

    def read() -> list[int]:
        barrier.wait()
        seen = [0]
        while True:
            is_last = is_over.is_set()
            seen += [event.number for event in store.runs.events(job.subject, seen[-1], limit=7)]
            if is_last and len(store.runs.events(job.subject, seen[-1])) == 0:
                return seen[1:]

    with ThreadPoolExecutor(writers + 1) as pool:
        reader = pool.submit(read)
        written = list(pool.map(write, range(writers)))
        is_over.set()
        seen = reader.result()
    assert all(numbers == sorted(numbers) for numbers in written)
    first = 3  # it was queued and claimed before
    assert sorted(number for numbers in written for number in numbers) == list(range(first, 83))
    assert seen == list(range(1, first + writers * each))


def test_a_transaction_that_fails_uses_up_no_number(store: Store, store_url: str, job: Job) -> None:
    database = Database.at(store_url)
    with pytest.raises(RuntimeError), database.writing() as connection:
        assert append_event(connection, job.subject, "status", None, later(2)) == 3
        raise RuntimeError
    database.engine.dispose()
    store.jobs.phase(job, later(3), LEASE_S, "seeding")
    assert [event.number for event in store.runs.events(job.subject)] == [1, 2, 3]


@pytest.mark.slow
def test_a_worker_and_impatient_users_end_a_run_once(store: Store, store_url: str, job: Job) -> None:
    """Check that nothing is lost or reported twice if users request the end again and again while the worker writes."""
    rounds, users = 15, 3
    barrier = threading.Barrier(users + 1)

    def work() -> None:
        mine = Store(store_url)
        barrier.wait()
        for k, plan in enumerate(plans(*((1e-3, 1000 + k) for k in range(rounds)))):
            mine.jobs.checkpoint(job, later(2 + k), LEASE_S, update_of([plan], evaluations=k))
        mine.jobs.end_run(job, later(60), "cancelled", stopped="cancelled")
        mine.close()

    def ask(_: int) -> None:
        barrier.wait()
        with pytest.raises(AlreadyEnded):
            while True:
                store.runs.request_cancel(job.subject, later(30))

    with ThreadPoolExecutor(users + 1) as pool:
        worker = pool.submit(work)
        list(pool.map(ask, range(users)))
        worker.result()
    numbers = [event.number for event in store.runs.events(job.subject)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert [status for status, _, _ in statuses(store, job.subject)].count("cancelled") == 1
    assert len(store.runs.frontier(job.subject)) == rounds


def test_a_cancel_and_a_claim_at_once_are_one_after_the_other(store: Store, graph_id: str) -> None:
    """Check that either the run is cancelled before it is claimed, or its worker hears that it should end."""
    for _ in range(10):
        run_id = store.runs.submit(request_for(graph_id), later(0)).id
        barrier = threading.Barrier(2)

        def claim(barrier: threading.Barrier = barrier) -> Job | None:
            barrier.wait()
            return store.jobs.claim("ada", later(1), LEASE_S)

        def cancel(run_id: str = run_id, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            store.runs.request_cancel(run_id, later(1))

        with ThreadPoolExecutor(2) as pool:
            claimed, cancelled = pool.submit(claim), pool.submit(cancel)
            cancelled.result()
            job = claimed.result()
        if job is None:
            assert statuses(store, run_id) == [("queued", "queued", 0), ("cancelled", "done", 0)]
        else:
            assert job.subject == run_id
            assert job.cancel_requested or store.jobs.renew(job, LEASE_S)
            store.jobs.end_run(job, later(3), "cancelled", stopped="cancelled")
        assert store.runs.get(run_id).status == "cancelled"
