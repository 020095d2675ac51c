"""Tests of plans: their costs are right, their moves replay, their names are stable, and structure changes too."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tapestry.costmodel.reference import reference_cost
from tapestry.hardware import load_mesh
from tapestry.optimizer import Result, knee, verify_plan
from tapestry.optimizer.archive.report import costs_of
from tapestry.optimizer.run.plan import Plan
from tapestry.rewrites import PLACEMENT, Move, placement_moves, replay, replay_plan
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.costmodel.programs import GRAPHS
from tests.optimizer.archive.archives import dominates
from tests.optimizer.searches import search

pytestmark = pytest.mark.slow

PLACEMENTS = {rule.name for rule in PLACEMENT} | {"set_option"}


@pytest.fixture(scope="module", params=["dgx-h100", pytest.param("2x-dgx-h100", marks=pytest.mark.slow)])
def found(request: pytest.FixtureRequest) -> Result:
    """Run a search long enough for structural moves to enter the frontier."""
    return search(mesh=load_mesh(request.param), evaluations=30_000, seed=1)


def structural(plan: Plan) -> list[Move]:
    return [m for m in plan.moves if m.rule not in PLACEMENTS]


def test_frontiers_are_mutually_nondominated_and_feasible(found: Result) -> None:
    values = np.array([[p.cost[o.name] for o in found.objectives] for p in found.frontier])
    assert len(values) >= 8
    for a in values:
        assert not any(dominates(b, a) for b in values)
    assert all(p.feasible for p in found.frontier)
    assert (np.diff(values[:, 0]) >= 0).all(), "sorted by the first objective"


def test_costs_are_those_of_the_plain_model(found: Result) -> None:
    for plan in found.frontier:
        mesh_shape = MeshShape(found.mesh.axis_sizes).part(plan.placements.devices)
        used = found.mesh.part(mesh_shape.axes)
        assert plan.cost == costs_of(reference_cost(plan.graph, plan.placements, used).vector(), used)


def test_plans_are_verified_by_execution(found: Result) -> None:
    inputs = random_inputs(found.graph, np.random.default_rng(0))
    reference = evaluate(found.graph, inputs)
    for plan in found.frontier[:: max(1, len(found.frontier) // 6)]:
        checked = verify_plan(plan, found.mesh, inputs=inputs, execute=True, reference=reference)
        assert checked.ok, checked.to_json()


def test_structure_is_searched_and_its_history_replays(found: Result) -> None:
    rewritten = [p for p in found.frontier if structural(p)]
    assert rewritten, "the frontier of this graph holds rewritten programs"
    for plan in found.frontier:
        again = replay(found.graph, structural(plan))
        assert again.structural_hash == plan.graph.structural_hash


def test_moves_rebuild_graph_and_placements_from_nothing(found: Result) -> None:
    mesh_shape = MeshShape(found.mesh.axis_sizes)
    for plan in found.frontier:
        reported = [Move.from_json(json.loads(json.dumps(m.to_json()))) for m in plan.moves]
        graph, placements = replay_plan(found.graph, reported, mesh_shape)
        assert graph.structural_hash == plan.graph.structural_hash
        assert placement_moves(graph, placements, plan.placements) == []
        assert placements.devices == plan.placements.devices
        kinds = [m.rule in PLACEMENTS for m in reported]
        assert kinds == sorted(kinds), "structure first, then placements"


def test_names_are_stable_and_distinguish_plans(found: Result) -> None:
    ids = [p.id for p in found.frontier]
    assert len(set(ids)) == len(ids)
    assert all(len(i) == 12 and int(i, 16) >= 0 for i in ids)
    plan = found.frontier[0]
    copy = Plan(plan.graph, plan.placements, tuple(plan.moves), {}, False)
    assert copy.id == plan.id, "a name says what a plan is, not what it costs"
    assert Plan(plan.graph, plan.placements, plan.moves[:-1], {}, True).id != plan.id


def test_the_knee_is_between_the_extremes(found: Result) -> None:
    middle = knee(found.frontier, found.objectives)
    assert middle in found.frontier
    values = np.log([[p.cost[o.name] + 1e-9 for o in found.objectives] for p in found.frontier])
    scaled = (values - values.min(axis=0)) / np.maximum(np.ptp(values, axis=0), 1e-12)
    assert np.linalg.norm(scaled, axis=1).argmin() == found.frontier.index(middle)
    with pytest.raises(ValueError, match="an empty frontier has no knee"):
        knee((), found.objectives)


def test_part_of_the_mesh_may_stay_idle() -> None:
    """Check that the cheapest plans of a small graph leave devices idle, unless all have to work."""
    graph = GRAPHS["perceptron"]()
    objectives = ("time_s", "price_usd", "peak_memory_bytes")
    free = search(graph, objectives=objectives)
    bound = search(graph, objectives=objectives, devices="all")
    assert any(p.placements.devices for p in free.frontier)
    assert not any(p.placements.devices and p.placements.stages is None for p in bound.frontier)
    assert min(p.cost["price_usd"] for p in free.frontier) < min(p.cost["price_usd"] for p in bound.frontier)
