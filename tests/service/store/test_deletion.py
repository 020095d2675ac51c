"""Tests of deletion: what goes with a run, what keeps it, and what retention leaves."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import delete, func, select

from tapestry.service.retention import Retention, collect
from tapestry.service.store import (
    Idempotency,
    InUse,
    Job,
    NewBatchEntry,
    Rewriting,
    Store,
    UnknownId,
)
from tapestry.service.store import executions as executions_module
from tapestry.service.store.tables import Base, ExecutionRow
from tests.service.programs import NOON, finished_run, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of

DAY_S = 86_400.0


def rows(store: Store) -> dict[str, int]:
    """Count the rows of all tables that have any, but for the one of what a tenant has used of the workers."""
    with store._database.reading() as connection:
        counts = {
            name: connection.scalar(select(func.count()).select_from(table))
            for name, table in Base.metadata.tables.items()
            if name != "usage"
        }
    return {name: count for name, count in counts.items() if count}


def ended(store: Store, job: Job, at: float = 9) -> str:
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 1024), (2e-3, 512))))
    store.jobs.end_run(job, later(at), "finished", stopped="budget")
    return job.subject


def test_a_run_goes_with_all_that_belongs_to_it(store: Store, job: Job) -> None:
    before = rows(store)
    run_id = ended(store, job)
    assert rows(store) != before
    store.deletions.run(run_id)
    assert rows(store) == {"graphs": 1}
    with pytest.raises(UnknownId, match=run_id):
        store.runs.get(run_id)
    with pytest.raises(UnknownId, match=run_id):
        store.deletions.run(run_id)


def test_a_run_is_kept_for_an_execution_that_is_being_queued(
    store: Store, store_url: str, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = ended(store, job)
    plan = store.runs.frontier(run_id)[0]
    is_writing, may_end = threading.Event(), threading.Event()

    def slow(*_: Any) -> None:
        is_writing.set()
        assert may_end.wait(60)

    def remove() -> None:
        other = Store(store_url)
        try:
            other.deletions.run(run_id)
        finally:
            other.close()

    monkeypatch.setattr(executions_module, "put_values", slow)
    with ThreadPoolExecutor(2) as pool:
        queued = pool.submit(
            store.executions.submit, plan.key, backend="numpy", values=True, seed=0, created_at=later(10)
        )
        assert is_writing.wait(60)
        removed = pool.submit(remove)
        threading.Timer(0.5, may_end.set).start()  # so that the deletion finds it under way
        execution = queued.result()
        with pytest.raises(InUse, match=f"execution {execution.id} of a plan of run {run_id} is queued"):
            removed.result()
    claimed = store.jobs.claim("ada", later(11), LEASE_S, ("execution",))
    assert claimed is not None and claimed.subject == execution.id


def test_no_execution_is_queued_for_a_run_that_is_gone(store: Store, job: Job) -> None:
    run_id = ended(store, job)
    plan = store.runs.frontier(run_id)[0]
    store.deletions.run(run_id)
    with pytest.raises(UnknownId, match="its run may have been deleted"):
        store.executions.submit(plan.key, backend="numpy", values=True, seed=0, created_at=later(10))
    assert rows(store) == {"graphs": 1}


def test_a_lease_without_a_job_keeps_nobody_waiting(store: Store, job: Job) -> None:
    plan = store.runs.frontier(ended(store, job))[0]
    how: Mapping[str, Any] = {"backend": "numpy", "values": True, "seed": 0}
    lost, next_one = (store.executions.submit(plan.key, created_at=later(10 + k), **how).id for k in range(2))
    with store._database.writing() as connection:
        connection.execute(delete(ExecutionRow).where(ExecutionRow.id == lost))
    claimed = store.jobs.claim("ada", later(12), LEASE_S, ("execution",))
    assert claimed is not None and claimed.subject == next_one
    assert store.jobs.claim("bob", later(12), LEASE_S, ("execution",)) is None
    assert rows(store)["leases"] == 1


def test_what_has_not_ended_stays(store: Store, job: Job, graph_id: str) -> None:
    with pytest.raises(InUse, match=f"run {job.subject} is running; cancel it first"):
        store.deletions.run(job.subject)
    queued = store.runs.submit(request_for(graph_id), later(1)).id
    with pytest.raises(InUse, match="is queued"):
        store.deletions.run(queued)


def test_an_execution_in_hand_keeps_its_run(store: Store) -> None:
    run_id = store.runs.save_finished(finished_run(two_layers()))
    plan = store.runs.frontier(run_id)[0]
    submitted = store.executions.submit(plan.key, backend="numpy", values=True, seed=0, created_at=later(5))
    for remove, subject in ((store.deletions.run, run_id), (store.deletions.execution, submitted.id)):
        with pytest.raises(InUse, match=f"execution {submitted.id}"):
            remove(subject)
    claimed = store.jobs.claim("ada", later(6), LEASE_S, ("execution",))
    assert claimed is not None
    store.jobs.end_execution(claimed, later(7), "failed", problem={"code": "x"})
    store.deletions.execution(submitted.id)
    with pytest.raises(UnknownId):
        store.executions.get(submitted.id)
    store.deletions.run(run_id)


def test_a_run_that_another_waits_to_start_from_stays(store: Store, job: Job, graph_id: str) -> None:
    run_id = ended(store, job)
    for named in (run_id, run_id[:6], f"0123456789ab,{run_id}"):
        waiting = store.runs.submit(request_for(graph_id, start_from=named), later(20)).id
        with pytest.raises(InUse, match=f"run {waiting}, which has not ended, starts from run {run_id}"):
            store.deletions.run(run_id)
        store.runs.request_cancel(waiting, later(21))
    store.deletions.run(run_id)


def test_who_repeats_a_request_gets_a_new_run(store: Store, graph_id: str) -> None:
    key = Idempotency("POST /v1/runs", "a-key", "f" * 64)
    first = store.runs.submit(request_for(graph_id), NOON, idempotency=key)
    job = store.jobs.claim("ada", later(1), LEASE_S)
    assert job is not None
    store.deletions.run(ended(store, job))
    again = store.runs.submit(request_for(graph_id), later(20), idempotency=key)
    assert (again.is_replay, again.id == first.id) == (False, False)


def content_bytes(store: Store) -> int:
    return sum(store.deletions.run_sizes().values())


def batch_of(store: Store, graph_id: str, count: int = 2) -> tuple[str, list[str]]:
    entries = [
        NewBatchEntry(graph_id, "dgx-h100", seed, request_for(graph_id, seed=seed)) for seed in range(count)
    ]
    batch_id = store.batches.submit("seeds", entries, NOON).id
    return batch_id, [entry.run_id or "" for entry in store.batches.entries(batch_id)]


def end_all(store: Store, at: float) -> None:
    while (job := store.jobs.claim("ada", later(1), LEASE_S)) is not None:
        ended(store, job, at)


def test_a_batch_goes_alone_or_with_its_runs(store: Store, graph_id: str) -> None:
    batch_id, runs = batch_of(store, graph_id)
    with pytest.raises(InUse, match=f"run {runs[0]} belongs to batch {batch_id}"):
        store.deletions.run(runs[0])
    with pytest.raises(InUse, match="is queued"):
        store.deletions.batch(batch_id, with_runs=True)
    assert len(store.batches.entries(batch_id)) == 2  # all or nothing
    end_all(store, 9)
    store.deletions.batch(batch_id)
    assert [store.runs.get(run).status for run in runs] == ["succeeded"] * 2
    other, _ = batch_of(store, graph_id)
    end_all(store, 9)
    store.deletions.batch(other, with_runs=True)
    assert sorted(run.id for run in store.runs.page()) == sorted(runs)
    with pytest.raises(UnknownId):
        store.deletions.batch(other)


def test_a_graph_stays_while_it_is_needed(store: Store, job: Job, graph_id: str) -> None:
    made = store.graphs.save_rewritten(
        two_layers("another", width=128), Rewriting(graph_id, "", (), later(1))
    ).id
    store.graphs.save_upload("0" * 64, graph_id, later(1))
    with pytest.raises(InUse, match=f"graph {graph_id} is needed by run {job.subject}"):
        store.deletions.graph(graph_id)
    store.deletions.run(ended(store, job))
    with pytest.raises(InUse, match=f"needed by graph {made}"):
        store.deletions.graph(graph_id)
    store.deletions.graph(made)
    store.deletions.graph(graph_id)
    assert rows(store) == {}
    with pytest.raises(UnknownId):
        store.deletions.graph(graph_id)


@pytest.fixture
def three(store: Store, graph_id: str) -> tuple[list[str], str]:
    """Store two runs of different age and a batch of two, all ended; return the runs and the batch."""
    runs = []
    for age_s in (0.0, 10 * DAY_S):
        runs.append(store.runs.submit(request_for(graph_id, seed=99), later(0)).id)
        end_all(store, age_s)
    batch_id, _ = batch_of(store, graph_id)
    end_all(store, 5 * DAY_S)
    return runs, batch_id


def test_what_is_old_is_collected(store: Store, graph_id: str, three: tuple[list[str], str]) -> None:
    (old, young), batch_id = three
    now = NOON + timedelta(days=11)
    would = collect(store, Retention(seconds=7 * DAY_S), now, dry=True)
    assert (would.batches, would.runs, would.graphs) == ([], [old], [])
    assert would.size_bytes > 0 and store.runs.get(old)
    found = collect(store, Retention(seconds=7 * DAY_S), now)
    assert (found.runs, found.left_bytes) == ([old], would.left_bytes)
    found = collect(store, Retention(seconds=2 * DAY_S), now)
    assert (found.batches, found.runs, found.graphs) == ([batch_id], [], [])
    assert [run.id for run in store.runs.page()] == [young]
    found = collect(store, Retention(seconds=0.5 * DAY_S), now)
    assert (found.runs, found.graphs, found.left_bytes) == ([young], [graph_id], 0)
    assert rows(store) == {}


def test_what_exceeds_a_size_is_collected_from_the_oldest_on(
    store: Store, three: tuple[list[str], str]
) -> None:
    (old, young), batch_id = three
    now, size = NOON, content_bytes(store)
    assert collect(store, Retention(size_bytes=size), now).runs == []
    found = collect(store, Retention(size_bytes=size - 1), now)
    assert (found.runs, found.batches) == ([old], [])
    assert found.left_bytes == size - found.size_bytes == content_bytes(store)
    found = collect(store, Retention(size_bytes=0), now)
    assert (found.batches, found.runs, found.graphs) == ([batch_id], [young], [])
    assert store.runs.page() == () and len(store.graphs.page()) == 1  # programs are of no age here


def test_a_run_that_two_batches_name_goes_with_the_last(store: Store, graph_id: str) -> None:
    first, runs = batch_of(store, graph_id)
    end_all(store, 9)
    known = dict(store.runs.details(runs[0]).versions)
    requests = [request_for(graph_id, seed=seed) for seed in range(2)]
    entries = [NewBatchEntry(graph_id, "dgx-h100", seed, each) for seed, each in enumerate(requests)]
    second = store.batches.submit("second", entries, later(20), reusable=known).id
    assert [entry.run_id for entry in store.batches.entries(second)] == runs
    size = content_bytes(store)
    found = [
        (each.id, each.size_bytes) for each in store.deletions.ended_batches(store.deletions.run_sizes())
    ]
    assert found == [(first, 0), (second, size)]
    collected = collect(store, Retention(size_bytes=size - 1), NOON)
    assert (collected.batches, collected.size_bytes, store.runs.page()) == ([first, second], size, ())


def test_compacting_keeps_everything(store: Store, three: tuple[list[str], str]) -> None:
    before = rows(store)
    store.deletions.compact()
    assert rows(store) == before


def test_who_has_most_gives_first(store: Store) -> None:
    """Check that the size of one tenant's runs deletes nothing of another's."""
    small, large = store.of("small"), store.of("large")
    kept = small.runs.save_finished(replace(finished_run(two_layers()), ended_at=later(0)))  # the oldest
    for k in range(3):
        large.runs.save_finished(replace(finished_run(two_layers(f"p{k}")), ended_at=later(1 + k)))
    size = sum(sum(one.deletions.run_sizes().values()) for one in (small, large))
    found = collect(store, Retention(size_bytes=size - 1), NOON)
    assert len(found.runs) == 1 and kept not in found.runs
    found = collect(store, Retention(size_bytes=size // 2), NOON)
    assert kept not in found.runs and found.left_bytes <= size // 2
    assert kept in collect(store, Retention(size_bytes=0), NOON).runs
