"""Tests of workers' heartbeats."""

from __future__ import annotations

from tapestry.service.store import Store, WorkerHeartbeat
from tests.service.store.submissions import later


def beat(store: Store, name: str, at: float, status: str = "idle", subject: str | None = None) -> None:
    store.workers.beat(name, later(at), host="a machine", pid=42, status=status, subject=subject)


def test_a_worker_is_known_by_its_last_beat(store: Store) -> None:
    beat(store, "ada", 1)
    beat(store, "ada", 3, "busy", "0123456789ab")
    assert store.workers.alive(later(0)) == (
        WorkerHeartbeat("ada", "a machine", 42, "busy", "0123456789ab", later(3)),
    )


def test_who_sent_no_heartbeat_for_a_while_is_not_alive(store: Store) -> None:
    for name, at in (("cyd", 5), ("ada", 1), ("bob", 3)):
        beat(store, name, at)
    assert [worker.name for worker in store.workers.alive(later(3))] == ["bob", "cyd"]
    assert store.workers.alive(later(6)) == ()


def test_a_worker_that_has_ended_is_gone(store: Store) -> None:
    beat(store, "ada", 1)
    store.workers.gone("ada")
    store.workers.gone("nobody")
    assert store.workers.alive(later(0)) == ()
