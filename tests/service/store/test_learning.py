"""Tests of what runs have learned: snapshots never change, and priors weigh what is alike."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer.run.learning import OTHER_FOCUS, OTHER_MESH, Learned
from tapestry.optimizer.run.plan import Rate
from tapestry.service.store import Store, UnknownId, mesh_to_document
from tests.service.programs import finished_run, two_layers

DGX = mesh_to_document(load_mesh("dgx-h100"))
TWO_NODES = mesh_to_document(load_mesh("2x-dgx-h100"))
OBJECTIVES = ("time_s", "peak_memory_bytes")


def rate(credit: float, rule: str = "reshard") -> Rate:
    return Rate(rule, "product", 200, 100, 10, credit, 0.25)


def store_run(store: Store, *rates: Rate) -> str:
    """Store a run that has learned these rates, and return its id."""
    run = finished_run(two_layers())
    return store.runs.save_finished(
        dataclasses.replace(run, result=dataclasses.replace(run.result, rates=rates))
    )


def test_a_snapshot_is_the_sum_of_all_runs_up_to_it(store: Store) -> None:
    assert store.learning.newest() == 0
    assert store.learning.prior(0, DGX, OBJECTIVES).arms == {}
    store_run(store, rate(4.0))
    store_run(store)  # a run that made no move adds nothing
    first = store.learning.prior(1, DGX, OBJECTIVES)
    store_run(store, rate(2.0), rate(1.0, "chunk"))
    assert store.learning.newest() == 2
    assert store.learning.prior(1, DGX, OBJECTIVES) == first
    assert first.arms == {("reshard", "product"): Learned(100, 4.0)}
    second = store.learning.prior(2, DGX, OBJECTIVES)
    assert (second.snapshot, second.arms[("reshard", "product")]) == (2, Learned(200, 6.0))
    (chunk, reshard) = store.learning.rates()
    assert (chunk.rule, chunk.snapshots, chunk.applied) == ("chunk", 1, 100)
    assert (reshard.rule, reshard.snapshots, reshard.applied, reshard.credit) == ("reshard", 2, 200, 6.0)
    assert [row["credit"] for row in store.learning.over_time() if row["rule"] == "reshard"] == [4.0, 2.0]


def test_what_is_less_alike_counts_less(store: Store) -> None:
    store_run(store, rate(8.0))
    others = (
        (TWO_NODES, OBJECTIVES, OTHER_MESH),
        (DGX, ("time_s",), OTHER_FOCUS),
        (DGX, OBJECTIVES[::-1], 1.0),
    )
    for mesh, objectives, weight in others:
        prior = store.learning.prior(1, mesh, objectives)
        assert prior.arms[("reshard", "product")] == Learned(100 * weight, 8.0 * weight)


def test_runs_that_end_at_once_are_numbered_one_after_the_other(store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda k: store_run(store, rate(float(k))), range(8)))
    assert store.learning.newest() == 8
    assert store.learning.prior(8, DGX, OBJECTIVES).arms[("reshard", "product")] == Learned(800, 28.0)


def test_a_prior_that_is_not_there_or_of_another_release_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(store, rate(4.0))
    with pytest.raises(UnknownId, match=r"there is no prior 7; `tapestry rules --learned`"):
        store.learning.prior(7, DGX, OBJECTIVES)
    monkeypatch.setattr("tapestry.service.store.learning.version", lambda name: "99.0")
    assert (store.learning.newest(), store.learning.rates()) == (0, ())
    with pytest.raises(
        UnknownId, match=r"prior 1 was learned by Tapestry .*, whose moves are not those of 99.0"
    ):
        store.learning.prior(1, DGX, OBJECTIVES)
