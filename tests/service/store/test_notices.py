"""Tests of messages between writers and readers of events."""

from __future__ import annotations

import threading

from tapestry.service.store import Job, Store
from tests.service.processes import eventually
from tests.service.store.submissions import LEASE_S, later

SOON_S = 10.0


def test_a_committed_event_wakes_those_who_listen(store: Store, store_url: str, job: Job) -> None:
    woken = threading.Event()
    other = Store(store_url)
    notices = other.notices(woken.set)
    try:
        if store_url.startswith("sqlite"):
            assert not notices.is_listening, "a file carries no messages: its counter is read"
            return
        eventually(lambda: notices.is_listening, SOON_S, "the listener")
        eventually(woken.is_set, SOON_S, "what may have come before")
        woken.clear()
        store.jobs.renew(job, LEASE_S)
        assert not woken.wait(0.2), "no event was written"
        store.jobs.phase(job, later(2), LEASE_S, "seeding")
        assert woken.wait(SOON_S)
    finally:
        notices.end()
        other.close()
    assert not notices.is_listening
