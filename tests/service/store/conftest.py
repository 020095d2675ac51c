"""Fixtures of an open store on every kind of database, and of its rows when workers begin."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tapestry.service.store import Job, Store
from tests.service.programs import NOON, two_layers
from tests.service.store.clocks import ManualClock
from tests.service.store.submissions import LEASE_S, later, request_for


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(store_url: str, clock: ManualClock) -> Iterator[Store]:
    opened = Store(store_url, clock)
    yield opened
    opened.close()


@pytest.fixture
def graph_id(store: Store) -> str:
    return store.graphs.save(two_layers(), NOON).id


@pytest.fixture
def run_id(store: Store, graph_id: str) -> str:
    """Queue a run and return its id."""
    return store.runs.submit(request_for(graph_id), NOON).id


@pytest.fixture
def job(store: Store, run_id: str) -> Job:
    """Claim the queued run for `ada`, a second after it was queued."""
    taken = store.jobs.claim("ada", later(1), LEASE_S)
    assert taken is not None and taken.subject == run_id
    return taken
