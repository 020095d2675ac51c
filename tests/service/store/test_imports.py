"""Tests of imports on every kind of database: acknowledged as a whole, done once, and gone with their content."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from tapestry.service.retention import Retention, collect
from tapestry.service.store import (
    AlreadyEnded,
    ImportRequest,
    InUse,
    Job,
    LeaseLost,
    QueueFull,
    QueueLimits,
    QuotaLimits,
    Store,
    StoredImport,
    TenantSpace,
    UnknownId,
)
from tapestry.service.store.quotas import ABANDONED
from tapestry.service.store.tables import ImportPartRow, ImportRow
from tests.service.programs import NOON
from tests.service.store.clocks import ManualClock, taken_over
from tests.service.store.submissions import LEASE_S, later

HOW = ImportRequest(False, "big", ".mlir", {"batch": 8}, ("weights.bin",), 2**30, 1000, {"tapestry": "1"})
HASH, OTHER = "a" * 64, "b" * 64
FILES = ((b"first", b"second"), (b"data",))
PROBLEM = {"code": "invalid_graph", "errors": [{"pointer": "/file", "detail": "it is none"}]}


def begun(store: Store, upload_hash: str = HASH) -> str:
    """Store the content of an upload, and return the id of its import, which is not queued yet."""
    import_id = store.imports.begin(upload_hash, "big", HOW, NOON)
    for file, portions in enumerate(FILES):
        for number, portion in enumerate(portions):
            store.imports.append(import_id, file, number, portion)
    return import_id


def queued(store: Store, upload_hash: str = HASH, seconds: float = 0.0) -> str:
    return store.imports.submit(begun(store, upload_hash), later(seconds))


def claimed(store: Store, owner: str = "ada") -> Job:
    job = store.jobs.claim(owner, later(1), LEASE_S, ("import",))
    assert job is not None and job.kind == "import"
    return job


def parts_left(store: Store) -> int:
    with store._database.reading() as connection:
        return connection.scalar(select(func.count()).select_from(ImportPartRow)) or 0


def test_an_import_is_seen_once_all_of_it_is_stored(store: Store) -> None:
    import_id = begun(store)
    assert store.imports.page() == () and store.imports.unfinished(HASH) is None
    assert store.jobs.claim("ada", NOON, LEASE_S) is None
    for unseen in (store.imports.get, store.imports.delete):
        with pytest.raises(UnknownId):
            unseen(import_id)
    assert store.imports.submit(import_id, later(1)) == import_id
    found = store.imports.get(import_id)
    assert store.imports.page() == (found,)
    assert found == StoredImport(
        import_id, "big", HASH, HOW, 15, "queued", 0, None, None, False, later(1), None, None
    )
    assert [list(store.imports.portions(import_id, file)) for file in range(3)] == [*map(list, FILES), []]
    with pytest.raises(UnknownId, match="send it again"):
        store.imports.append(import_id, 0, 2, b"too late")


def test_the_same_content_is_one_import_until_it_has_ended(store: Store) -> None:
    first = queued(store)
    assert queued(store) == first == store.imports.unfinished(HASH)
    other = queued(store, OTHER, 1.0)
    assert other != first and parts_left(store) == 6
    job = claimed(store)
    assert (job.subject, store.imports.get(first).status, queued(store)) == (first, "running", first)
    store.jobs.end_import(job, later(2), "failed", problem=PROBLEM)
    assert queued(store) != first


@pytest.mark.parametrize("succeeds", [True, False])
def test_an_import_ends_with_its_graph_or_its_problem_and_without_its_content(
    store: Store, graph_id: str, succeeds: bool
) -> None:
    import_id = queued(store)
    with pytest.raises(InUse, match="is queued"):
        store.imports.delete(import_id)
    job = claimed(store)
    if succeeds:
        store.jobs.end_import(job, later(2), "finished", graph_id=graph_id)
    else:
        store.jobs.end_import(job, later(2), "failed", problem=PROBLEM)
    found = store.imports.get(import_id)
    assert (found.status, found.attempt, found.started_at, found.ended_at) == (
        "succeeded" if succeeds else "failed",
        *(1, later(1), later(2)),
    )
    assert (found.graph_id, found.problem) == ((graph_id, None) if succeeds else (None, PROBLEM))
    assert parts_left(store) == 0
    assert store.jobs.counts()["imports"] == {found.status: 1}
    with pytest.raises(AlreadyEnded):
        store.imports.request_cancel(import_id, later(3))
    assert store.imports.ended_before(later(2)) == () and store.imports.ended_before(later(3)) == (import_id,)
    if succeeds:
        store.deletions.graph(graph_id)
        assert store.imports.get(import_id).graph_id is None
    store.imports.delete(import_id)
    assert store.imports.page() == ()


def test_the_import_of_a_dead_worker_is_done_by_the_next(
    store: Store, clock: ManualClock, graph_id: str
) -> None:
    import_id = queued(store)
    first = claimed(store)
    assert store.jobs.claim("bob", later(2), LEASE_S, ("import",)) is None
    second = taken_over(store, clock, "bob", later(20))
    assert second is not None and (second.subject, second.attempt) == (import_id, 2)
    with pytest.raises(LeaseLost):
        store.jobs.end_import(first, later(21), "failed", problem=PROBLEM)
    assert list(store.imports.portions(import_id, 0)) == list(FILES[0])
    store.jobs.end_import(second, later(22), "finished", graph_id=graph_id)
    assert (store.imports.get(import_id).status, store.imports.get(import_id).attempt) == ("succeeded", 2)


def test_an_import_is_cancelled_at_once_while_it_waits_and_by_its_worker_later(store: Store) -> None:
    waiting = queued(store)
    assert store.imports.request_cancel(waiting, later(1)).status == "cancelled"
    assert parts_left(store) == 0 and store.jobs.claim("ada", later(2), LEASE_S) is None
    running = queued(store)
    job = claimed(store)
    found = store.imports.request_cancel(running, later(2))
    assert (found.status, found.cancel_requested) == ("running", True)
    assert store.imports.unfinished(HASH) is None  # whoever sends it again wants it read
    assert store.jobs.cancelled([job]) == {running} and store.jobs.renew(job, LEASE_S)
    store.jobs.end_import(job, later(3), "cancelled")
    assert store.imports.get(running).status == "cancelled" and parts_left(store) == 0


def test_an_abandoned_upload_is_deleted_at_once_or_by_a_later_one(store: Store) -> None:
    store.imports.abandon(begun(store))
    assert parts_left(store) == 0
    left = begun(store)
    kept = queued(store, OTHER)
    store.imports.begin(HASH, "big", HOW, NOON + ABANDONED)
    assert parts_left(store) == 6
    store.imports.begin(HASH, "big", HOW, NOON + ABANDONED + timedelta(seconds=1))
    with store._database.reading() as connection:
        ids = set(connection.scalars(select(ImportRow.id)))
    assert left not in ids and kept in ids and parts_left(store) == 3
    with pytest.raises(UnknownId):
        store.imports.submit(left, NOON)


def test_an_abandoned_upload_counts_for_no_quota_and_is_collected_for_every_tenant(store: Store) -> None:
    mine, size = store.of("ada"), len(b"content")
    store.tenants.set_limits("ada", QuotaLimits(stored_bytes=size), NOON)
    cut_off = mine.imports.begin(HASH, "big", HOW, NOON)
    mine.imports.append(cut_off, 0, 0, b"content")
    last, after = NOON + ABANDONED, NOON + ABANDONED + timedelta(seconds=1)
    assert mine.quotas.space(last) == TenantSpace(size, size) and mine.quotas.space(after) == TenantSpace(
        0, size
    )
    assert mine.quotas.use(last).stored_bytes == size and mine.quotas.use(after).stored_bytes == 0
    waiting = queued(store)
    assert collect(store, Retention(), last).imports == []
    for dry in (True, False):
        found = collect(store, Retention(), after, dry=dry)
        assert (found.imports, found.size_bytes) == ([cut_off], size)
    assert collect(store, Retention(), after).imports == []
    assert parts_left(store) == 3 and [each.id for each in store.imports.page()] == [waiting]


def test_a_full_queue_refuses_imports_and_their_places_are_known(store: Store) -> None:
    first, second = queued(store), queued(store, OTHER, 1.0)
    assert [store.waiting.position(each, "import") for each in (first, second)] == [1, 2]
    assert store.waiting.position(first, "run") is None
    third = begun(store, "c" * 64)
    with pytest.raises(QueueFull):
        store.imports.submit(third, NOON, queue_limits=QueueLimits(2, 100))
    assert [found.id for found in store.imports.page()] == [second, first]
    claimed(store)
    assert [store.waiting.position(each, "import") for each in (first, second)] == [None, 1]
