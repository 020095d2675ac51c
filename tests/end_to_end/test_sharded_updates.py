"""Tests of training on many devices: sharded optimizer states and parameters are reached by moves, and executed."""

from __future__ import annotations

from functools import cache
from math import prod

import pytest

from tapestry.optimizer import Budget, Plan, verify_plan
from tapestry.optimizer.run.search import search
from tapestry.rewrites import replay_plan
from tapestry.teg.sharding.mesh_shape import MeshShape
from tests.end_to_end.twins import load_twin, mesh_of

STEP = "train_gpt2_small_b8_s1024_adam"
MESH = "8"


@cache
def frontier() -> tuple[Plan, ...]:
    result = search(
        load_twin(STEP, "").graph,
        mesh_of(MESH),
        objectives=("time_s", "peak_memory_bytes"),
        budget=Budget(evaluations=16_000),
        islands=1,
        seed=0,
    )
    return result.frontier


def copies(plan: Plan, role: str) -> float:
    """Compute how many of the eight devices hold an element of the tensors of a role, on average."""
    mesh_shape = MeshShape(mesh_of(MESH).axis_sizes)
    total = held = 0.0
    for block in plan.graph.blocks:
        if block.operator == "source" and block.definition["role"] == role:
            elements = prod(plan.graph.tensors[block.outputs[0]].shape)
            splits = plan.placements.of(block).strategy.splits
            parts = prod(s.size for s in mesh_shape.sub_axes if any(s.name in split.axes for split in splits))
            total, held = total + elements, held + elements * 8 / parts
    return held / total


@pytest.mark.slow
def test_the_frontier_goes_from_copies_of_everything_to_copies_of_nothing() -> None:
    states = [copies(plan, "optimizer_state") for plan in frontier()]
    parameters = [copies(plan, "parameter") for plan in frontier()]
    fast = min(range(len(states)), key=lambda k: frontier()[k].cost["time_s"])
    assert states[fast] > 4 and parameters[fast] > 4
    assert any(s < 0.75 * p for s, p in zip(states, parameters, strict=True)), "a sharded update"
    assert any(s < 2 and p < 2 for s, p in zip(states, parameters, strict=True)), "parameters gathered at use"


@pytest.mark.slow
@pytest.mark.parametrize("role", ["optimizer_state", "parameter"])
def test_the_plan_with_the_fewest_copies_trains_alike(role: str) -> None:
    twin, mesh = load_twin(STEP, ""), mesh_of(MESH)
    plan = min(frontier(), key=lambda p: copies(p, role))
    checked = verify_plan(plan, mesh, inputs=twin.inputs, execute=True, reference=twin.reference)
    assert checked.ok and checked.executed, checked.to_json()
    mesh_shape = MeshShape(mesh.axis_sizes)
    graph, placements = replay_plan(twin.graph, plan.moves, mesh_shape)
    assert graph.structural_hash == plan.graph.structural_hash
    sources = {b.site for b in graph.blocks if b.operator == "source" and b.definition["role"] == role}
    assert sources & {place for m in plan.moves if m.rule == "reshard" for place in m.places}
    assert copies(plan, role) < 2 and placements.devices == plan.placements.devices
