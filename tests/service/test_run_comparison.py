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
from tapestry.service.run_comparison import option_differences, run_comparison_document
from tapestry.service.store import Store
from tests.service.databases import file_with_tables
from tests.service.programs import finished_run, two_layers

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
