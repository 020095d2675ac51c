"""Tests of comparisons of stored runs and plans: what differs in their inputs, and which times compare at all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware import Mesh, load_mesh
from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.service.plan_comparison import plan_comparison_document
from tapestry.service.run_comparison import (
    MOST_MOMENTS,
    hypervolumes_over_time,
    option_differences,
    run_comparison_document,
)
from tapestry.service.store import RunEvent, Store
from tests.service.databases import file_with_tables
from tests.service.programs import NOON, finished_run, two_layers

TIME = TimeEstimate({"matrix_product.fp16": ClassTime(1e-3, 1e-4)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = Store(file_with_tables(tmp_path / "runs.db"))
    yield opened
    opened.close()


def run_of(store: Store, *cost_models: int, mesh: Mesh | None = None, seed: int = 7) -> str:
    """Store a run of two plans, with times of these versions of the cost model."""
    finished = finished_run(two_layers())
    plans = zip(finished.result.frontier, cost_models, strict=True)
    result = replace(
        finished.result,
        frontier=tuple(replace(plan, cost_model=version, time=TIME) for plan, version in plans),
        mesh=mesh or finished.result.mesh,
    )
    options = replace(finished.options, seed=seed)
    return store.runs.save_finished(
        replace(finished, result=result, options=options, verified={}, executions={})
    )


def test_inputs_that_are_not_the_same_are_named(store: Store) -> None:
    runs = [run_of(store, 1, 1, seed=seed) for seed in (7, 8, 7)]
    found = option_differences([store.runs.details(run) for run in runs])
    assert found == [{"title": "Seed", "values": ["7", "8", "7"]}]


def test_meshes_of_one_name_with_other_figures_are_noted(store: Store) -> None:
    mesh = load_mesh("dgx-h100")
    other = replace(mesh, device=replace(mesh.device, cores=1))
    now = (COST_MODEL_VERSION,) * 2
    first, second = run_of(store, *now), run_of(store, *now, mesh=other)
    (note,) = run_comparison_document(store, [first, second])["notes"]
    assert note == f"run {second}: its mesh is not that of the first: device cores: {mesh.device.cores} and 1"
    assert run_comparison_document(store, [first, first])["notes"] == []


def test_runs_of_different_programs_are_noted(store: Store) -> None:
    first = run_of(store, 1, 1)
    other = store.runs.save_finished(replace(finished_run(two_layers("small")), verified={}, executions={}))
    ids = [store.runs.details(run).summary.graph_id for run in (first, other)]
    note = run_comparison_document(store, [first, other])["notes"][0]
    assert note.startswith("these runs are of different programs: ")
    assert all(f"({graph_id[:12]})" in note for graph_id in ids)


def test_every_plan_that_another_cost_model_costed_is_noted(store: Store) -> None:
    run = run_of(store, 1, 1)
    plans = [f"{run}-{plan.id}" for plan in store.runs.frontier(run)]
    (note,) = plan_comparison_document(store, plans)["notes"]
    assert note.startswith(f"run {run}: 2 plans costed by an older model")


def test_times_of_one_cost_model_are_compared_only(store: Store) -> None:
    same, mixed = run_of(store, COST_MODEL_VERSION, COST_MODEL_VERSION), run_of(store, COST_MODEL_VERSION, 1)
    for run, has_lead in ((same, True), (mixed, False)):
        plans = [f"{run}-{plan.id}" for plan in store.runs.frontier(run)]
        first, second = plan_comparison_document(store, plans)["plans"]
        assert first["lead"] is None
        assert (second["lead"] is not None) == has_lead


def frontier_events(count: int, cost_model: int = COST_MODEL_VERSION) -> list[RunEvent]:
    """Return the events of a search in which each second a plan replaces the one before, and takes a second less."""
    events = list[RunEvent]()
    for k in range(count):
        plan = {"id": f"p{k}", "cost": {"time_s": float(count - k)}, "cost_model": cost_model}
        removed = [f"p{k - 1}"] if k else []
        events += [
            RunEvent(2 * k, "progress", {"seconds": float(k)}, NOON),
            RunEvent(2 * k + 1, "frontier", {"added": [plan], "removed": removed}, NOON),
        ]
    return events


def test_the_course_of_a_long_search_is_computed_at_few_moments_from_first_to_last() -> None:
    reference = {"time_s": 100.0}
    found = hypervolumes_over_time(frontier_events(100), ["time_s"], reference)
    assert found is not None and len(found) == MOST_MOMENTS
    assert found[0] == [0.0, 0.0] and found[-1] == [99.0, pytest.approx(0.99)]
    assert all(volume == pytest.approx(seconds / 100) for seconds, volume in found)
    assert hypervolumes_over_time(frontier_events(3), ["time_s"], reference) == [
        [float(k), pytest.approx((97 + k) / 100)] for k in range(3)
    ]


def test_a_course_by_another_cost_model_or_without_events_is_not_known() -> None:
    reference = {"time_s": 100.0}
    assert hypervolumes_over_time(frontier_events(3, 1), ["time_s"], reference) is None
    assert hypervolumes_over_time([], ["time_s"], reference) is None
