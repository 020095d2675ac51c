"""Tests that tables are taken back to those of every earlier version, and that nothing is lost unasked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import create_engine, select

from tapestry.service.store import Store, StoreError
from tapestry.service.store import downgrade as module
from tapestry.service.store.database import connect, database_url_of
from tapestry.service.store.downgrade import downgrade
from tapestry.service.store.migrations import HEAD
from tapestry.service.store.migrations.steps_back import (
    OLDEST,
    STEPS_BACK,
    names_of_losses,
)
from tapestry.service.store.schema import VERSIONS
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.schemas import description


@contextmanager
def filled(url: str) -> Iterator[Store]:
    """Open a store with a finished run; it is closed at the end."""
    store = Store(url)
    store.runs.save_finished(finished_run(two_layers()))
    yield store
    store.close()


def version(url: str) -> str:
    engine = create_engine(database_url_of(url))
    with engine.connect() as connection:
        found: str = connection.execute(select(VERSIONS.c.version_num)).scalar_one()
    engine.dispose()
    return found


def test_what_the_older_tables_have_no_place_for_is_named_and_nothing_has_changed(store_url: str) -> None:
    with filled(store_url) as store:
        run_id = store.runs.page()[0].id
        store.of("ada").graphs.save(two_layers(), NOON)
        store.runs.submit(store.runs.request(run_id), NOON, priority=3)
    with pytest.raises(StoreError, match="is as it was: tables of version 0025 have no place for ") as caught:
        downgrade(store_url, "0025", ["leases.expected_s", "graphs.tenant"])
    assert str(caught.value).endswith(
        " graphs.tenant (1 row), leases.priority (1 row); "
        "delete these rows or restore a copy that was made before the upgrade"
    )
    assert version(store_url) == HEAD
    store = Store(store_url)
    store.of("ada").deletions.graph(store.of("ada").graphs.page()[0].id)
    store.close()
    with pytest.raises(StoreError, match=r"the upgrade or lose this by --lose leases\.priority$"):
        downgrade(store_url, "0025", ["leases.expected_s"])


def test_what_is_accepted_is_lost_and_all_else_comes_back(store_url: str) -> None:
    with filled(store_url) as store:
        run = store.runs.page()[0]
        options, plans = store.runs.get(run.id).options, store.runs.frontier(run.id)
    done = downgrade(store_url, OLDEST, names_of_losses())
    assert (done.before, done.after, version(store_url)) == (HEAD, OLDEST, OLDEST)
    assert "graphs.family" in {loss.name for loss in done.lost}
    store = Store(store_url)
    assert store.runs.get(run.id).options == options.changed(prior=None)
    assert [(plan.key, plan.cost) for plan in store.runs.frontier(run.id)] == [
        (plan.key, plan.cost) for plan in plans
    ]
    store.close()
    assert version(store_url) == HEAD


def test_a_step_that_fails_takes_all_of_them_back(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = connect(database_url_of(store_url))
    before = description(engine)
    engine.dispose()
    monkeypatch.setitem(STEPS_BACK, "0010", replace(STEPS_BACK["0010"], indices=("ix_nowhere",)))
    with pytest.raises(
        StoreError, match=rf"could not be taken back to version {OLDEST} and is as it was: .*ix_nowhere"
    ):
        downgrade(store_url, OLDEST, ())
    assert description(engine) == before
    engine.dispose()
    assert version(store_url) == HEAD


def test_others_who_have_the_database_open_are_noticed(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OTHERS_WAIT_S", 0.2)
    with filled(store_url), pytest.raises(StoreError, match="others have it open; stop servers, workers"):
        downgrade(store_url, "0033", ())
    assert version(store_url) == HEAD
    assert downgrade(store_url, "0033", ()).lost == ()
    assert version(store_url) == "0033"
