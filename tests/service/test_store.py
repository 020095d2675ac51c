"""The store's promises, written once and tried on every kind of database."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from hardware import load_mesh, mesh_names
from service.store import Store, StoreError, mesh_of, mesh_to_document
from service.store import codec as codec_module
from tests.service.programs import NOON, finished_run, plan_by_hand, two_layers

KINDS = ("sqlite",)


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of this kind, empty."""
    assert request.param == "sqlite"
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    opened = Store(url)
    yield opened
    opened.close()


def test_the_same_graph_twice_is_one_graph(store: Store) -> None:
    first, second = store.save_graph(two_layers(), NOON), store.save_graph(two_layers(), NOON)
    assert first == second
    assert [graph.id for graph in store.graphs()] == [first]


def test_a_graph_comes_back_as_it_was(store: Store) -> None:
    graph = two_layers(with_weights=True)
    assert store.load_graph(store.save_graph(graph, NOON)) == graph


def test_graphs_that_differ_in_a_name_or_in_a_weight_are_two(store: Store) -> None:
    one, changed = two_layers(with_weights=True), two_layers(with_weights=True)
    changed = dataclasses.replace(changed, data={"up": np.zeros_like(changed.data["up"])})
    ids = {
        store.save_graph(graph, NOON) for graph in (one, changed, two_layers("another", with_weights=True))
    }
    assert len(ids) == 3


def test_large_values_are_left_out_but_still_tell_graphs_apart(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec_module, "LARGEST_DATA_BYTES", 1000)
    one = two_layers(with_weights=True)
    other = dataclasses.replace(one, data={"up": np.zeros_like(one.data["up"])})
    first, second = store.save_graph(one, NOON), store.save_graph(other, NOON)
    assert first != second
    assert store.load_graph(first) == dataclasses.replace(one, data={})
    assert all(graph.lacks_values for graph in store.graphs())


def test_a_run_comes_back_whole(store: Store) -> None:
    finished = finished_run(two_layers())
    found = store.run(store.save_run(finished))
    result, summary = finished.result, found.summary
    assert (summary.graph_name, summary.mesh_name, summary.seed, summary.islands) == (
        "two_layers",
        "dgx-h100",
        7,
        2,
    )
    assert (summary.status, summary.stopped, summary.evaluations, summary.seconds) == (
        "succeeded",
        "budget",
        1234,
        1.5,
    )
    assert summary.objectives == ("time_s", "peak_memory_bytes")
    assert summary.constraints == (str(result.constraints[0]),)
    assert (summary.budget_seconds, summary.budget_evaluations, summary.compute_dtype) == (1.5, None, "bf16")
    assert (summary.created_at, found.pins, found.host) == (NOON, {"y": "[gpu.0, -]"}, {"cores": 2})
    assert found.rules == {"reshard": (100, 3)}
    assert [point["hypervolume"] for point in found.history] == [0.25, 0.5]
    assert [plan.id for plan in found.frontier] == [plan.id for plan in result.frontier]
    for stored, plan in zip(found.frontier, result.frontier, strict=True):
        assert dict(stored.cost) == dict(plan.cost)
        assert list(stored.moves) == [move.to_json() for move in plan.moves]
        assert stored.verified == finished.verified[plan.id]
    assert mesh_of(found.mesh) == result.mesh


def test_a_plan_comes_back_as_the_search_made_it(store: Store) -> None:
    finished = finished_run(two_layers())
    run = store.run(store.save_run(finished))
    for stored, plan in zip(run.frontier, finished.result.frontier, strict=True):
        assert store.load_plan(stored.key) == dataclasses.replace(plan, cost=dict(plan.cost))


def test_whole_numbers_beyond_a_float_are_exact(store: Store) -> None:
    run = store.run(store.save_run(finished_run(two_layers())))
    assert run.frontier[0].cost["compute_flops"] == 2**60 + 1


def test_the_same_run_twice_is_two_runs_of_one_graph(store: Store) -> None:
    finished = finished_run(two_layers())
    first, second = store.save_run(finished), store.save_run(finished)
    assert first != second
    assert {run.id for run in store.runs()} == {first, second}
    assert len(store.graphs()) == 1


def test_rewritten_graphs_are_not_listed_among_those_handed_in(store: Store) -> None:
    finished = finished_run(two_layers())
    rewritten = plan_by_hand(two_layers("rewritten"), 3e-3, 2**18)
    result = dataclasses.replace(finished.result, frontier=(*finished.result.frontier, rewritten))
    store.save_run(dataclasses.replace(finished, result=result))
    assert [graph.name for graph in store.graphs()] == ["two_layers"]
    store.save_graph(rewritten.graph, NOON)
    assert {graph.name for graph in store.graphs()} == {"two_layers", "rewritten"}


def test_a_run_that_cannot_be_stored_leaves_nothing(store: Store) -> None:
    finished = finished_run(two_layers())
    twice = (finished.result.frontier[0],) * 2  # the second breaks a promise of the tables
    broken = dataclasses.replace(finished, result=dataclasses.replace(finished.result, frontier=twice))
    with pytest.raises(StoreError, match="nothing was stored"):
        store.save_run(broken)
    assert (store.runs(), store.graphs()) == ((), ())


def test_an_interrupted_run_is_kept_as_cancelled(store: Store) -> None:
    run = store.run(store.save_run(finished_run(two_layers(), stopped="interrupted")))
    assert (run.summary.status, run.summary.stopped, len(run.frontier)) == ("cancelled", "interrupted", 2)


def test_runs_and_plans_are_found_by_their_beginnings(store: Store) -> None:
    finished = finished_run(two_layers())
    run_id = store.save_run(finished)
    plan = finished.result.frontier[1]
    assert store.run(run_id[:5]).summary.id == run_id
    assert store.find_plan(plan.id[:6]).id == plan.id
    assert store.find_plan(f"{run_id[:4]}/{plan.id[:4]}").run_id == run_id


def test_a_plan_of_several_runs_means_the_newest_one(store: Store) -> None:
    old = finished_run(two_layers())
    new = dataclasses.replace(old, created_at=NOON.replace(year=2027))
    newest, oldest = store.save_run(new), store.save_run(old)
    plan = old.result.frontier[0].id
    assert store.find_plan(plan).run_id == newest
    assert store.find_plan(f"{oldest}/{plan}").run_id == oldest


@pytest.mark.parametrize("reference", ["", "nonesuch", "100%", "_", "nonesuch/plan"])
def test_names_of_nothing_are_said(store: Store, reference: str) -> None:
    store.save_run(finished_run(two_layers()))
    for find in (store.find_plan, store.run):
        with pytest.raises(StoreError, match="there is no"):
            find(reference)


def test_names_of_several_are_said(store: Store) -> None:
    finished = finished_run(two_layers())
    plans = [plan_by_hand(two_layers(), 1e-3, memory) for memory in range(40)]
    result = dataclasses.replace(finished.result, frontier=tuple(plans))
    store.save_run(dataclasses.replace(finished, result=result, executions={}))
    shared = next(c for c in "0123456789abcdef" if sum(p.id.startswith(c) for p in plans) > 1)
    with pytest.raises(StoreError, match="is not one plan; it may be"):
        store.find_plan(shared)


def test_executions_are_kept_with_their_traces(store: Store) -> None:
    finished = finished_run(two_layers())
    run = store.run(store.save_run(finished))
    first = finished.executions[run.frontier[0].id]
    assert store.executions(run.frontier[0].key) == (first,)
    again = dataclasses.replace(first, backend="dry", seed=None, trace=None)
    store.save_execution(run.frontier[0].key, again)
    assert store.executions(run.frontier[0].key) == (first, again)
    assert store.executions(run.frontier[1].key) == ()


def test_an_execution_of_no_plan_is_refused(store: Store) -> None:
    execution = next(iter(finished_run(two_layers()).executions.values()))
    with pytest.raises(StoreError, match="refused"):
        store.save_execution(999, execution)


def test_lists_go_on_after_a_cursor(store: Store) -> None:
    finished = finished_run(two_layers())
    moments = [NOON.replace(second=k // 2) for k in range(5)]
    saved = {store.save_run(dataclasses.replace(finished, created_at=moment)) for moment in moments}
    seen, before = [], None
    while page := store.runs(limit=2, before=before):
        seen += [run.id for run in page]
        before = (page[-1].created_at, page[-1].id)
    assert len(seen) == 5 and set(seen) == saved
    assert store.runs(limit=1)[0].created_at == moments[-1]


def test_several_writers_wait_for_each_other(url: str) -> None:
    barrier = threading.Barrier(4)

    def write(_: int) -> str:
        barrier.wait()
        store = Store(url)
        try:
            return store.save_run(finished_run(two_layers()))
        finally:
            store.close()

    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(write, range(4)))
    store = Store(url)
    assert {run.id for run in store.runs()} == set(ids)
    assert len(store.graphs()) == 1
    store.close()


def test_what_is_stored_outlives_the_store(url: str) -> None:
    store = Store(url)
    run_id = store.save_run(finished_run(two_layers()))
    store.close()
    again = Store(url)
    assert len(again.run(run_id).frontier) == 2
    again.close()


@pytest.mark.parametrize("name", mesh_names())
def test_every_mesh_is_stored_exactly(name: str) -> None:
    mesh = load_mesh(name)
    assert mesh_of(mesh_to_document(mesh)) == mesh
