"""Tests that a run is reused for an equal request, and for no other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from sqlalchemy import create_engine, update

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import load_mesh
from tapestry.service.lifecycle import Event
from tapestry.service.store import RunRequest, Store, mesh_to_document
from tapestry.service.store.tables import PlanRow
from tests.service.programs import finished_run, two_layers
from tests.service.store.submissions import LEASE_S, later, plans, request_for, update_of

VERSIONS = {"tapestry": "1.0", "plugin:acme": "2"}


def answered(store: Store, request: RunRequest, event: Event = "finished", **end: Any) -> str:
    """Queue a run, do it as a worker does, and end it."""
    run_id = store.runs.submit(request, later(0)).id
    job = store.jobs.claim("ada", later(1), LEASE_S)
    assert job is not None
    store.jobs.begin(job, later(1), LEASE_S, islands=4, prior="none", versions=VERSIONS, host={})
    store.jobs.checkpoint(job, later(2), LEASE_S, update_of(plans((1e-3, 512), (2e-3, 256))))
    store.jobs.end_run(job, later(3), event, **{"stopped": "budget", **end})
    return run_id


def test_an_equal_request_finds_the_newest_run_that_answered_it(store: Store, graph_id: str) -> None:
    answered(store, request_for(graph_id))
    newest = store.runs.submit(request_for(graph_id), later(4)).id
    assert store.runs.equal_run(request_for(graph_id), VERSIONS) != newest  # it waits
    job = store.jobs.claim("ada", later(5), LEASE_S)
    assert job is not None
    store.jobs.begin(job, later(5), LEASE_S, islands=2, prior="none", versions=VERSIONS, host={})
    store.jobs.end_run(job, later(6), "finished", stopped="budget")
    assert store.runs.equal_run(request_for(graph_id), VERSIONS) == newest


def test_a_request_that_is_reused_queues_nothing(store: Store, graph_id: str) -> None:
    run_id = answered(store, request_for(graph_id))
    submitted = store.runs.submit(request_for(graph_id), later(9), reusable=VERSIONS)
    assert (submitted.id, submitted.is_replay, submitted.requested_at) == (run_id, False, later(9))
    assert len(store.runs.page()) == 1
    assert store.jobs.counts()["queued"] == 0
    assert store.runs.submit(request_for(graph_id), later(9)).id != run_id


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 1},
        {"constraints": ("time_s<=1ms",)},
        {"islands": 4},
        {"pins": {"y": "[-, -]"}},
        {"verify": "none"},
        {"epsilon": 0.01},
        {"mesh": "dgx-a100"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_another_option_or_mesh_is_another_request(
    store: Store, graph_id: str, changed: dict[str, Any]
) -> None:
    answered(store, request_for(graph_id))
    assert store.runs.equal_run(request_for(graph_id, **changed), VERSIONS) is None


def test_another_figure_of_a_mesh_is_another_request(store: Store, graph_id: str) -> None:
    request = request_for(graph_id)
    answered(store, request)
    device = {**request.mesh["device"], "launch_overhead_s": 1e-3}
    changed = dataclasses.replace(request, mesh={**request.mesh, "device": device})
    assert store.runs.equal_run(changed, VERSIONS) is None


def test_another_program_is_another_request(store: Store, graph_id: str) -> None:
    answered(store, request_for(graph_id))
    other = store.graphs.save(two_layers(width=32), later(0)).id
    assert store.runs.equal_run(request_for(other), VERSIONS) is None


@pytest.mark.parametrize("versions", [{"tapestry": "1.1", "plugin:acme": "2"}, {"tapestry": "1.0"}])
def test_a_run_of_other_versions_is_not_reused(store: Store, graph_id: str, versions: dict[str, str]) -> None:
    answered(store, request_for(graph_id))
    assert store.runs.equal_run(request_for(graph_id), versions) is None


@pytest.mark.parametrize(
    ("event", "end"),
    [
        ("failed", {"stopped": "error", "problem": {"title": "No feasible plan"}}),
        ("cancelled", {"stopped": "cancelled"}),
        ("finished", {"problem": {"title": "Plans are refuted"}}),
    ],
)
def test_a_run_without_a_good_end_is_not_reused(
    store: Store, graph_id: str, event: Event, end: dict[str, Any]
) -> None:
    answered(store, request_for(graph_id), event, **end)
    assert store.runs.equal_run(request_for(graph_id), VERSIONS) is None


def test_costs_of_another_cost_model_are_not_reused(store: Store, store_url: str, graph_id: str) -> None:
    run_id = answered(store, request_for(graph_id))
    assert store.runs.equal_run(request_for(graph_id), VERSIONS) == run_id
    engine = create_engine(store_url)
    with engine.begin() as connection:
        one = update(PlanRow).where(
            PlanRow.run_id == run_id, PlanRow.key == store.runs.frontier(run_id)[0].key
        )
        connection.execute(one.values(cost_model=COST_MODEL_VERSION - 1))
    engine.dispose()
    assert store.runs.equal_run(request_for(graph_id), VERSIONS) is None


def test_a_request_that_starts_from_a_run_is_equal_to_none(store: Store, graph_id: str) -> None:
    first = answered(store, request_for(graph_id))
    answered(store, request_for(graph_id, start_from=first))
    assert store.runs.equal_run(request_for(graph_id, start_from=first), VERSIONS) is None


def test_a_run_of_the_command_line_is_found_by_its_options_as_given(store: Store) -> None:
    finished = finished_run(two_layers())
    run_id = store.runs.save_finished(finished)
    assert (finished.options.islands, store.runs.get(run_id).options.islands) == (None, 2)
    graph_id = store.graphs.save(two_layers(), later(0)).id
    request = RunRequest(graph_id, mesh_to_document(load_mesh("dgx-h100")), finished.options)
    assert store.runs.equal_run(request, finished.versions) == run_id


def test_an_upload_is_known_by_its_hash(store: Store, graph_id: str) -> None:
    assert store.graphs.uploaded("f" * 64) is None
    for _ in range(2):
        store.graphs.save_upload("f" * 64, graph_id, later(0))
    assert store.graphs.uploaded("f" * 64) == graph_id
