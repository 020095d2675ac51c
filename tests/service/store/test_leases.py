"""Tests of jobs and leases: one worker at a time has a job, and only that one writes about it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tapestry.service.store import Job, LeaseLost, Store
from tapestry.service.store.jobs import LONGEST_LOOK_S
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.clocks import ManualClock, claimed_after, taken_over
from tests.service.store.submissions import LEASE_S, contents, later, plans, request_for, update_of, writes_of

WRITES = tuple(writes_of(Job("run", "", "", 0, 0, False), NOON))


def test_a_claimed_run_is_running_and_in_one_hand(store: Store, run_id: str) -> None:
    job = store.jobs.claim("ada", later(1), LEASE_S)
    assert job == Job("run", run_id, "ada", attempt=1, attempts_without_progress=1, cancel_requested=False)
    summary = store.runs.get(run_id)
    assert (summary.status, summary.attempt, summary.started_at) == ("running", 1, later(1))
    assert store.jobs.claim("bob", later(2), LEASE_S) is None


def test_an_empty_queue_gives_nothing(store: Store) -> None:
    assert store.jobs.claim("ada", NOON, LEASE_S) is None


def test_the_oldest_job_comes_first(store: Store, graph_id: str) -> None:
    queued = {at: store.runs.submit(request_for(graph_id), later(at)).id for at in (3, 1, 2)}
    claimed = [store.jobs.claim("ada", later(9), LEASE_S) for _ in range(3)]
    assert [job.subject for job in claimed if job] == [queued[1], queued[2], queued[3]]


def test_lanes_claim_their_kind_only(store: Store, run_id: str) -> None:
    other = store.runs.find(store.runs.save_finished(finished_run(two_layers())))
    submitted = store.executions.submit(
        other.frontier[0].key, backend="numpy", values=True, seed=0, created_at=later(5)
    )
    job = store.jobs.claim("ada", later(6), LEASE_S, kinds=("execution",))
    assert job is not None and (job.kind, job.subject) == ("execution", submitted.id)
    assert store.jobs.claim("ada", later(6), LEASE_S, kinds=("execution",)) is None
    last = store.jobs.claim("ada", later(6), LEASE_S)
    assert last is not None and last.subject == run_id


def test_many_claimers_never_get_the_same_job(store: Store, store_url: str, graph_id: str) -> None:
    """Check claimers of which half share a store, and the others have one of their own, as processes do."""
    queued = {store.runs.submit(request_for(graph_id), later(k)).id for k in range(12)}
    claimers = 6
    barrier = threading.Barrier(claimers)

    def claim_all(number: int) -> list[str]:
        mine = store if number % 2 else Store(store_url)
        barrier.wait()
        taken: list[str] = []
        # A claimer may find every free row in another's hands for a moment: it asks again.
        while store.jobs.counts()["queued"]:
            job = mine.jobs.claim(f"worker {number}", later(60), LEASE_S)
            taken += [job.subject] if job else []
        if mine is not store:
            mine.close()
        return taken

    with ThreadPoolExecutor(claimers) as pool:
        taken = [run for claimed in pool.map(claim_all, range(claimers)) for run in claimed]
    assert sorted(taken) == sorted(queued)
    assert {store.runs.get(run).attempt for run in queued} == {1}


def test_a_lease_that_stands_still_is_taken_by_another(store: Store, clock: ManualClock, job: Job) -> None:
    assert claimed_after(store, clock, "bob", later(15), LEASE_S - 0.5) is None
    taken = claimed_after(store, clock, "bob", later(16), 0.5)
    assert taken == replace(job, owner="bob", attempt=2, attempts_without_progress=2)
    summary = store.runs.get(job.subject)
    assert (summary.status, summary.attempt, summary.started_at) == ("running", 2, later(1))


@pytest.mark.parametrize("write", ["renew", "phase", "begin", "checkpoint"])
def test_writing_renews_the_lease(store: Store, clock: ManualClock, job: Job, write: str) -> None:
    assert claimed_after(store, clock, "bob", later(10), LEASE_S - 0.5) is None
    writes_of(job, later(10))[write](store)
    assert claimed_after(store, clock, "bob", later(25), LEASE_S - 0.5) is None
    assert claimed_after(store, clock, "bob", later(26), 1.0) is not None


def test_a_busy_worker_sees_others_stand_still(store: Store, clock: ManualClock, graph_id: str) -> None:
    """Check that a worker takes a dead one's run as soon as it has ended its own, before those that never ran."""
    lost, own, waiting = (store.runs.submit(request_for(graph_id), later(k)).id for k in range(3))
    assert store.jobs.claim("ada", later(3), LEASE_S) is not None
    busy = store.jobs.claim("bob", later(3), LEASE_S)
    assert busy is not None and busy.subject == own
    for _ in range(int(LEASE_S) + 1):
        store.jobs.renew(busy, LEASE_S)
        clock.seconds += 1.0
    store.jobs.end_run(busy, later(20), "finished", stopped="budget")
    claimed = [store.jobs.claim("bob", later(20), LEASE_S) for _ in range(2)]
    assert [job.subject for job in claimed if job] == [lost, waiting]


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_a_clock_that_is_wrong_takes_nothing_and_holds_nothing(
    store: Store, clock: ManualClock, graph_id: str, skew_s: float
) -> None:
    """Check workers whose time of day is an hour off: one that asks for work, and one that has some and ends."""
    store.runs.submit(request_for(graph_id), NOON)
    held = store.jobs.claim("ada", later(skew_s), LEASE_S)
    assert held is not None
    for second in range(40):
        assert store.jobs.renew(held, LEASE_S) is False
        assert claimed_after(store, clock, "bob", later(second - skew_s), 1.0) is None
    taken = taken_over(store, clock, "bob", later(-skew_s))  # ada has stopped
    assert taken is not None and taken.attempt == 2


def test_time_in_which_nobody_could_look_does_not_count(store: Store, clock: ManualClock, job: Job) -> None:
    """Check a database that was away: who had a job gets the time of a lease again, for it could not renew it."""
    assert store.jobs.claim("bob", later(2), LEASE_S) is None
    clock.seconds += 60
    assert store.jobs.claim("bob", later(62), LEASE_S) is None
    assert claimed_after(store, clock, "bob", later(63), LEASE_S - LONGEST_LOOK_S) is not None


@pytest.mark.parametrize("write", WRITES)
def test_a_worker_given_up_for_dead_changes_nothing(
    store: Store, clock: ManualClock, job: Job, write: str
) -> None:
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024))))
    assert taken_over(store, clock, "bob", later(60)) is not None
    before = contents(store, job.subject)
    with pytest.raises(LeaseLost, match=f"run {job.subject} belongs to another worker"):
        writes_of(job, later(61))[write](store)
    assert contents(store, job.subject) == before
    assert claimed_after(store, clock, "cyd", later(70), LEASE_S - 0.5) is None
    assert claimed_after(store, clock, "cyd", later(75), 0.5) is not None  # bob's lease was as it is


@pytest.mark.parametrize("write", WRITES)
def test_the_same_worker_in_another_attempt_is_another(
    store: Store, clock: ManualClock, job: Job, write: str
) -> None:
    assert taken_over(store, clock, "ada", later(60)) is not None
    before = contents(store, job.subject)
    with pytest.raises(LeaseLost):
        writes_of(job, later(61))[write](store)
    assert contents(store, job.subject) == before


@pytest.mark.parametrize("write", WRITES)
def test_who_gave_a_job_back_has_it_no_more(store: Store, job: Job, write: str) -> None:
    store.jobs.release(job, later(5))
    before = contents(store, job.subject)
    with pytest.raises(LeaseLost):
        writes_of(job, later(6))[write](store)
    assert contents(store, job.subject) == before


@pytest.mark.parametrize("write", WRITES)
def test_nobody_writes_about_what_has_ended(store: Store, job: Job, write: str) -> None:
    store.jobs.end_run(job, later(5), "finished", stopped="budget")
    before = contents(store, job.subject)
    with pytest.raises(LeaseLost):
        writes_of(job, later(6))[write](store)
    assert contents(store, job.subject) == before


def test_a_worker_that_drains_gives_its_job_back(store: Store, job: Job) -> None:
    store.jobs.release(job, later(3))
    summary = store.runs.get(job.subject)
    assert (summary.status, summary.phase, store.jobs.counts()["queued"]) == ("queued", "queued", 1)
    taken = store.jobs.claim("bob", later(3), LEASE_S)
    # giving back does not count as failing
    assert taken == replace(job, owner="bob", attempt=2, attempts_without_progress=1)


def test_what_a_dead_worker_held_is_free_at_once(store: Store, job: Job, graph_id: str) -> None:
    other = store.runs.submit(request_for(graph_id), later(2)).id
    assert store.jobs.claim("bob", later(2), LEASE_S) is not None
    assert store.jobs.release_owner("ada") == 1
    assert store.runs.get(job.subject).status == "running"  # nobody decided otherwise
    taken = store.jobs.claim("cyd", later(3), LEASE_S)
    assert taken is not None and (taken.subject, taken.attempt, taken.attempts_without_progress) == (
        job.subject,
        2,
        2,
    )
    assert store.jobs.claim("cyd", later(3), LEASE_S) is None
    assert store.jobs.release_owner("nobody") == 0
    assert store.runs.get(other).attempt == 1


def test_attempts_without_progress_are_counted_until_something_is_kept(
    store: Store, clock: ManualClock, job: Job
) -> None:
    for attempt in range(2, 5):
        taken = taken_over(store, clock, "ada", later(60 * attempt))
        assert taken is not None and (taken.attempt, taken.attempts_without_progress) == (attempt, attempt)
    assert taken is not None
    store.jobs.checkpoint(taken, later(241), LEASE_S, update_of())
    again = taken_over(store, clock, "ada", later(600))
    assert again is not None and (again.attempt, again.attempts_without_progress) == (5, 1)


def test_a_run_ends_with_its_reason(store: Store, job: Job) -> None:
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024))))
    problem = {"code": "no_feasible_plan", "detail": "too small"}
    store.jobs.end_run(job, later(9), "failed", stopped="budget", problem=problem, timings={"compile_s": 0.5})
    run = store.runs.find(job.subject)
    assert (run.summary.status, run.summary.phase, run.summary.stopped) == ("failed", "done", "budget")
    assert (run.summary.problem, run.summary.ended_at, run.timings) == (problem, later(9), {"compile_s": 0.5})
    assert store.jobs.saved(job.subject) is None
    assert store.jobs.claim("bob", later(600), LEASE_S) is None


@pytest.mark.parametrize(
    ("event", "status"), [("finished", "succeeded"), ("failed", "failed"), ("cancelled", "cancelled")]
)
def test_every_end_of_a_run(store: Store, job: Job, event: str, status: str) -> None:
    store.jobs.end_run(job, later(9), event, stopped="why")  # type: ignore[arg-type]
    assert store.runs.get(job.subject).status == status
    assert store.jobs.counts() == {
        "runs": {status: 1},
        "executions": {},
        "imports": {},
        "queued": 0,
        "oldest": {},
    }


def test_what_a_run_is_made_with_is_what_its_last_attempt_had(
    store: Store, clock: ManualClock, job: Job
) -> None:
    store.jobs.begin(
        job, later(2), LEASE_S, islands=2, prior="none", versions={"python": "3.11"}, host={"cores": 2}
    )
    second = taken_over(store, clock, "bob", later(60))
    assert second is not None
    store.jobs.begin(
        second, later(61), LEASE_S, islands=8, prior="none", versions={"python": "3.12"}, host={"cores": 8}
    )
    run = store.runs.find(job.subject)
    assert (run.summary.options.islands, run.versions, run.host) == (8, {"python": "3.12"}, {"cores": 8})
