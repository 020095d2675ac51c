"""Tests of a search on a tiny twin: every plan of its frontier is proven, executed, and costs what was predicted."""

from __future__ import annotations

from itertools import product

import pytest

from tapestry.optimizer import Budget, verify_plan
from tapestry.optimizer.run.search import search
from tapestry.rewrites import placement_moves, replay_plan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.cases import rotating
from tests.end_to_end.twins import MODELS, load_twin, mesh_of


@pytest.mark.parametrize(("model", "mesh"), rotating(3, product(MODELS, ("8", "2x4"))))
def test_every_plan_of_a_frontier_is_verified_by_execution(model: str, mesh: str) -> None:
    twin = load_twin(model, "")
    result = search(twin.graph, mesh_of(mesh), budget=Budget(evaluations=30_000), islands=1, seed=2)
    assert len(result.frontier) >= 8
    every = max(1, len(result.frontier) // 8)
    for plan in result.frontier[::every]:
        checked = verify_plan(plan, mesh_of(mesh), inputs=twin.inputs, execute=True, reference=twin.reference)
        assert checked.ok, checked.to_json()
        assert checked.executed
        graph, placements = replay_plan(twin.graph, plan.moves, MeshShape(mesh_of(mesh).axis_sizes))
        assert graph.structural_hash == plan.graph.structural_hash
        assert placement_moves(graph, placements, plan.placements) == []
        assert placements.devices == plan.placements.devices
