"""Tests of searches of training steps with a host: plans that use it are found, say so, and are proven and executed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Result, verify_plan
from tapestry.optimizer.analysis.explanation import explain
from tapestry.optimizer.run.parts import ALL_PARTS, SearchParts
from tapestry.optimizer.run.search import search
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.importers import from_onnx
from tests.teg.importers.models import GRAPHS
from tests.teg.sharding.looped import training

STEP = from_onnx(GRAPHS / "tiny_train_gpt2_small_b8_s1024_adam.onnx")
OBJECTIVES = ("time_s", "peak_memory_bytes")


def mesh_with(**figures: float | None) -> Mesh:
    """Return four devices, whose link to the host has some figures."""
    mesh = load_mesh("hgx-a100-4")
    return replace(mesh, device=replace(mesh.device, **figures))


def found(
    mesh: Mesh, evaluations: int, parts: SearchParts = ALL_PARTS, objectives: tuple[str, ...] = OBJECTIVES
) -> Result:
    return search(STEP, mesh, evaluations=evaluations, islands=1, objectives=objectives, parts=parts)


@pytest.fixture(scope="module")
def with_host() -> Result:
    return found(mesh_with(), 60_000)


@pytest.mark.slow
def test_plans_on_the_host_are_found_and_say_what_lies_there(with_host: Result) -> None:
    plans = [plan for plan in with_host.frontier if plan.offload is not None]
    assert plans
    for plan in plans:
        assert any(move.rule == "offload" for move in plan.moves)
        assert plan.offload is not None and plan.offload["values"] + plan.offload["states"] > 0
    least = min(plan.cost["peak_memory_bytes"] for plan in with_host.frontier)
    without = found(mesh_with(), 60_000, replace(ALL_PARTS, offloading=False))
    assert least < min(plan.cost["peak_memory_bytes"] for plan in without.frontier)


@pytest.mark.slow
def test_they_compute_the_step(with_host: Result) -> None:
    mesh, inputs = mesh_with(), random_inputs(STEP, np.random.default_rng(0))
    wanted = evaluate(STEP, inputs)
    plans = [plan for plan in with_host.frontier if plan.offload is not None]
    for plan in (plans[0], plans[-1]):
        checked = verify_plan(plan, mesh, inputs=inputs, execute=True, reference=wanted)
        assert checked.ok, checked


@pytest.mark.slow
def test_a_history_leads_to_them(with_host: Result) -> None:
    plan = next(plan for plan in with_host.frontier if plan.offload and plan.offload["states"])
    explained = explain(STEP, plan.moves, mesh_with())
    assert explained.cost == plan.cost
    assert explained.offload is not None and explained.offload._asdict() == plan.offload


@pytest.mark.parametrize("figure", ("host_bytes_per_s", "host_memory_bytes"))
def test_a_device_without_figures_of_its_host_keeps_all(figure: str) -> None:
    assert all(plan.offload is None for plan in found(mesh_with(**{figure: None}), 2_000).frontier)


def test_time_alone_offloads_nothing() -> None:
    assert all(plan.offload is None for plan in found(mesh_with(), 2_000, objectives=("time_s",)).frontier)


def test_inference_offloads_nothing() -> None:
    step = training(1 << 12, "float32")
    result = search(step, mesh_with(), evaluations=3_000, islands=1, objectives=OBJECTIVES)
    assert all(plan.offload is None for plan in result.frontier)
