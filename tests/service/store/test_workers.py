"""Tests of workers' heartbeats."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tapestry.service.store import Store, WorkerHeartbeat
from tests.service.store.clocks import ManualClock
from tests.service.store.submissions import later


def beat(store: Store, name: str, at: float, status: str = "idle", subject: str | None = None) -> None:
    store.workers.beat(name, later(at), host="a machine", pid=42, status=status, subject=subject)


def test_a_worker_is_known_by_its_last_beat(store: Store) -> None:
    beat(store, "ada", 1)
    beat(store, "ada", 3, "busy", "0123456789ab")
    (worker,) = store.workers.alive(5.0)
    wanted = WorkerHeartbeat("ada", "a machine", 42, "busy", "0123456789ab", later(3), 1, None, 0)
    assert replace(worker, ahead_s=None) == wanted


def alive(store: Store, within_s: float) -> list[str]:
    return [worker.name for worker in store.workers.alive(within_s)]


def test_who_sent_no_heartbeat_for_a_while_is_not_alive(store: Store, clock: ManualClock) -> None:
    """Check by heartbeats alone: clocks of workers may say what they like."""
    for name, at in (("cyd", 5), ("ada", -3600), ("bob", 3600)):
        beat(store, name, at)
    assert alive(store, 5.0) == ["ada", "bob", "cyd"]
    clock.seconds += 4
    beat(store, "ada", -3600)
    assert alive(store, 5.0) == ["ada", "bob", "cyd"]
    clock.seconds += 2
    assert alive(store, 5.0) == ["ada"]
    clock.seconds += 4
    assert alive(store, 5.0) == []


def test_who_ended_without_a_word_is_taken_off_the_list_by_others(store: Store, clock: ManualClock) -> None:
    for name in ("ada", "bob"):
        beat(store, name, 1)
    for _ in range(70):
        clock.seconds += 1
        beat(store, "bob", 1)
    assert alive(store, 1e9) == ["bob"]
    beat(store, "ada", 1)  # it only slept
    assert alive(store, 5.0) == ["ada", "bob"]


def test_a_clock_that_is_off_is_reported(store: Store) -> None:
    """Check against the clock of a database server; a file has none."""
    ahead_s = store.workers.beat(
        "ada", datetime.now(UTC) + timedelta(hours=1), host="", pid=1, status="idle", subject=None
    )
    (worker,) = store.workers.alive(5.0)
    assert worker.ahead_s == ahead_s
    assert ahead_s is None or ahead_s == pytest.approx(3600, abs=60)


def test_a_worker_that_has_ended_is_gone(store: Store) -> None:
    beat(store, "ada", 1)
    store.workers.gone("ada")
    store.workers.gone("nobody")
    assert store.workers.alive(5.0) == ()
