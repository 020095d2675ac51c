"""Tests of the heartbeat: leases are renewed during jobs, cancels and losses are noticed, the worker is seen alive."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tapestry.service.store import LeaseLost, Store
from tapestry.service.worker.heartbeat import Heartbeat
from tests.service.processes import eventually
from tests.service.programs import two_layers
from tests.service.worker.conftest import Bench

BEAT_S = 0.05
LEASE_S = 0.5


@pytest.fixture
def heartbeat(store: Store) -> Heartbeat:
    return Heartbeat(store, "worker", threading.Event(), lease_s=LEASE_S, beat_s=BEAT_S)


@pytest.mark.slow
def test_a_job_in_hand_is_kept_beyond_its_lease(bench: Bench, heartbeat: Heartbeat) -> None:
    bench.ask(two_layers())
    job = bench.store.jobs.claim("worker", datetime.now(UTC), LEASE_S)
    assert job is not None
    heartbeat.start()
    with heartbeat.hold(job) as held:
        later = datetime.now(UTC) + timedelta(seconds=2 * LEASE_S)
        eventually(lambda: datetime.now(UTC) > later, 5, "two leases have passed")
        assert bench.store.jobs.claim("another", datetime.now(UTC), LEASE_S) is None
        held.check()
    eventually(
        lambda: bench.store.jobs.claim("another", datetime.now(UTC), LEASE_S), 5, "what is let go of is free"
    )
    heartbeat.stop()


def test_a_cancel_is_noticed(bench: Bench, heartbeat: Heartbeat) -> None:
    run_id = bench.ask(two_layers())
    job = bench.store.jobs.claim("worker", datetime.now(UTC), 60)
    assert job is not None
    heartbeat.start()
    with heartbeat.hold(job) as held:
        assert not held.is_cancelled
        bench.store.runs.request_cancel(run_id, datetime.now(UTC))
        eventually(lambda: held.is_cancelled, 5, "the worker hears of the cancel")
    heartbeat.stop()


def test_a_lost_lease_is_noticed(bench: Bench, heartbeat: Heartbeat) -> None:
    bench.ask(two_layers())
    job = bench.store.jobs.claim("worker", datetime.now(UTC), 60)
    assert job is not None
    bench.store.jobs.release_owner("worker")
    assert bench.store.jobs.claim("another", datetime.now(UTC), 60) is not None
    heartbeat.start()
    with heartbeat.hold(job) as held:
        eventually(lambda: held.is_lost, 5, "the worker hears of its loss")
        with pytest.raises(LeaseLost, match="belongs to another worker"):
            held.check()
    heartbeat.stop()


def test_a_worker_is_seen_while_it_lives_and_signs_off(bench: Bench, heartbeat: Heartbeat) -> None:
    heartbeat.start()
    (worker,) = bench.store.workers.alive(5.0)
    assert (worker.name, worker.status, worker.subject) == ("worker", "idle", None)
    run_id = bench.ask(two_layers())
    job = bench.store.jobs.claim("worker", datetime.now(UTC), 60)
    assert job is not None
    with heartbeat.hold(job):
        eventually(lambda: bench.store.workers.alive(5.0)[0].subject == run_id, 5, "it says what it works on")
    heartbeat.stop()
    assert bench.store.workers.alive(5.0) == ()
