"""Tests of runs: stored whole by the command line, listed, filtered and found by the prefixes of their ids."""

from __future__ import annotations

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from tapestry.service.store import Job, RunSummary, Store, StoreError, mesh_of
from tests.service.programs import NOON, finished_run, plan_by_hand, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of


def test_a_run_comes_back_whole(store: Store) -> None:
    finished = dataclasses.replace(finished_run(two_layers()), ended_at=later(2))
    found = store.runs.find(store.runs.save_finished(finished))
    result, summary = finished.result, found.summary
    assert (summary.graph_name, summary.mesh_name) == ("two_layers", "dgx-h100")
    assert summary.options == dataclasses.replace(finished.options, islands=2, prior="none")
    assert (summary.status, summary.phase, summary.stopped) == ("succeeded", "done", "budget")
    assert (summary.evaluations, summary.seconds, summary.front, summary.hypervolume) == (1234, 1.5, 2, 0.5)
    assert (summary.created_at, summary.ended_at, summary.problem) == (NOON, later(2), None)
    assert (found.host, found.versions, found.timings) == (
        {"cores": 2},
        {"python": "3.11"},
        {"compile_s": 0.25},
    )
    (bound,) = result.bounds.values()
    assert found.bounds == {"time_s": bound.to_json()}
    assert found.expected == {"time_s": 0.0025, "peak_memory_bytes": 0.0}
    assert found.rules == store.runs.rules(summary.id) == {"reshard": (100, 3)}
    assert found.history == store.runs.history(summary.id)
    assert found.history[1] == {"seconds": 1.5, "evaluations": 1234, "front": 2, "hypervolume": 0.5}
    assert [plan.id for plan in found.frontier] == [plan.id for plan in result.frontier]
    for stored, plan in zip(found.frontier, result.frontier, strict=True):
        assert dict(stored.cost) == dict(plan.cost)
        assert list(stored.moves) == [move.to_json() for move in plan.moves]
        assert stored.verified == finished.verified[plan.id]
    assert mesh_of(found.mesh) == result.mesh
    assert store.runs.get(summary.id) == summary


def test_the_same_run_twice_is_two_runs_of_one_graph(store: Store) -> None:
    finished = finished_run(two_layers())
    first, second = store.runs.save_finished(finished), store.runs.save_finished(finished)
    assert first != second
    assert {run.id for run in store.runs.page()} == {first, second}
    assert len(store.graphs.page()) == 1


def test_a_run_that_cannot_be_stored_leaves_nothing(store: Store) -> None:
    finished = finished_run(two_layers())
    twice = (finished.result.frontier[0],) * 2  # the second breaks a promise of the tables
    broken = dataclasses.replace(finished, result=dataclasses.replace(finished.result, frontier=twice))
    with pytest.raises(StoreError, match="nothing was stored"):
        store.runs.save_finished(broken)
    assert (store.runs.page(), store.graphs.page()) == ((), ())


def test_an_interrupted_run_is_kept_as_cancelled(store: Store) -> None:
    run = store.runs.find(store.runs.save_finished(finished_run(two_layers(), stopped="interrupted")))
    assert (run.summary.status, run.summary.stopped, len(run.frontier)) == ("cancelled", "interrupted", 2)


def test_a_run_of_the_command_line_is_not_in_the_queue(store: Store) -> None:
    store.runs.save_finished(finished_run(two_layers()))
    assert store.jobs.counts() == {
        "runs": {"succeeded": 1},
        "executions": {"succeeded": 1},
        "imports": {},
        "queued": 0,
        "oldest": {},
    }
    assert store.jobs.claim("ada", NOON, LEASE_S) is None


def test_runs_are_found_by_their_prefixes(store: Store) -> None:
    run_id = store.runs.save_finished(finished_run(two_layers()))
    assert store.runs.find(run_id[:5]).summary.id == run_id
    assert store.runs.find(run_id).summary.id == run_id


@pytest.mark.parametrize("reference", ["", "nonesuch", "100%", "_"])
def test_names_of_no_run_are_reported(store: Store, reference: str) -> None:
    store.runs.save_finished(finished_run(two_layers()))
    with pytest.raises(StoreError, match="there is no run"):
        store.runs.find(reference)


def test_names_of_several_runs_are_reported(store: Store, graph_id: str) -> None:
    ids = [
        store.runs.submit(request_for(graph_id), NOON).id for _ in range(17)
    ]  # two of 16 first digits meet
    shared = next(c for c in "0123456789abcdef" if sum(run_id.startswith(c) for run_id in ids) > 1)
    with pytest.raises(StoreError, match=f"run '{shared}' is not one run; it may be {shared}"):
        store.runs.find(shared)


def test_lists_go_on_after_a_cursor_also_within_a_moment(store: Store, graph_id: str) -> None:
    saved = {store.runs.submit(request_for(graph_id), later(k // 3)).id for k in range(8)}
    seen: list[RunSummary] = []
    before = None
    while page := store.runs.page(limit=2, before=before):
        seen += page
        before = (page[-1].created_at, page[-1].id)
    assert len(seen) == 8 and {run.id for run in seen} == saved
    assert [run.created_at for run in seen] == sorted((run.created_at for run in seen), reverse=True)


def test_lists_take_microseconds_seriously(store: Store, graph_id: str) -> None:
    moments = [NOON + timedelta(microseconds=k) for k in range(3)]
    ids = [store.runs.submit(request_for(graph_id), moment).id for moment in moments]
    assert [run.id for run in store.runs.page()] == ids[::-1]
    assert [run.id for run in store.runs.page(before=(moments[1], ids[1]))] == ids[:1]


def test_lists_are_filtered(store: Store, graph_id: str, run_id: str) -> None:
    other_graph = store.graphs.save(two_layers("another"), NOON).id
    elsewhere = store.runs.submit(request_for(graph_id, mesh="tpu-v5e-4x4"), later(1)).id
    another = store.runs.submit(request_for(other_graph), later(2)).id
    claimed = store.jobs.claim("ada", later(3), LEASE_S)
    assert claimed is not None and claimed.subject == run_id

    def listed(**filters: str) -> list[str]:
        return [run.id for run in store.runs.page(**filters)]  # type: ignore[arg-type]

    assert listed() == [another, elsewhere, run_id]
    assert listed(status="running") == [run_id]
    assert listed(status="queued") == [another, elsewhere]
    assert listed(graph_id=graph_id) == [elsewhere, run_id]
    assert listed(mesh="dgx-h100") == [another, run_id]
    assert listed(mesh="dgx-h100", graph_id=graph_id, status="running") == [run_id]
    assert listed(status="failed") == listed(graph_id="nonesuch") == []


def test_a_frontier_is_in_the_order_of_its_first_objective_then_its_others(store: Store, job: Job) -> None:
    found = plans((3e-3, 100), (1e-3, 400), (2e-3, 300), (2e-3, 200))
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(found))
    shown = store.runs.frontier(job.subject)
    assert [(plan.cost["time_s"], plan.cost["peak_memory_bytes"]) for plan in shown] == [
        (1e-3, 400),
        (2e-3, 200),
        (2e-3, 300),
        (3e-3, 100),
    ]
    assert {(plan.devices, plan.move_count, plan.moves, plan.placements) for plan in shown} == {
        ("all", 2, (), None)
    }


def test_several_writers_wait_for_each_other(store: Store, store_url: str) -> None:
    barrier = threading.Barrier(4)

    def write(_: int) -> str:
        barrier.wait()
        mine = Store(store_url)
        try:
            return mine.runs.save_finished(finished_run(two_layers()))
        finally:
            mine.close()

    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(write, range(4)))
    assert {run.id for run in store.runs.page()} == set(ids)
    assert len(store.graphs.page()) == 1


def test_what_is_stored_outlives_the_store(store_url: str) -> None:
    store = Store(store_url)
    run_id = store.runs.save_finished(finished_run(two_layers()))
    store.close()
    again = Store(store_url)
    assert len(again.runs.find(run_id).frontier) == 2
    again.close()


def test_a_store_that_works_answers(store: Store) -> None:
    store.ping()


def test_runs_of_several_plans_and_names_have_one_frontier_each(store: Store) -> None:
    finished = finished_run(two_layers())
    more = plan_by_hand(two_layers(), 3e-3, 2**18)
    wider = dataclasses.replace(finished.result, frontier=(*finished.result.frontier, more))
    two = store.runs.save_finished(finished)
    three = store.runs.save_finished(dataclasses.replace(finished, result=wider))
    assert (len(store.runs.frontier(two)), len(store.runs.frontier(three))) == (2, 3)
