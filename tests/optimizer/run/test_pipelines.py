"""Tests of searches that choose stages beside structure and placement."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from tapestry.costmodel.degrees import is_product
from tapestry.costmodel.unsharded import live_bytes
from tapestry.hardware import Mesh, load_mesh
from tapestry.optimizer import Checkpoint, Result, Snapshot, verify_plan
from tapestry.optimizer.analysis.plan_costs import PlanCosts
from tapestry.optimizer.run.micro_batches import rounds_to_search
from tapestry.optimizer.run.options import OptionError, RunOptions
from tapestry.optimizer.run.parts import ALL_PARTS
from tapestry.optimizer.run.pipelines import first_pipeline, pipelines_to_search
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.rewrites import placement_moves, replay_plan
from tapestry.teg.evaluate import evaluate, random_inputs
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.possible_rounds import batch_dims
from tapestry.teg.sharding.rounds import Rounds
from tapestry.teg.sharding.stages import Stages
from tests.optimizer.run.resumed import reported
from tests.optimizer.searches import search
from tests.teg.sharding.looped import training_by_parts
from tests.teg.sharding.pipelined import chain

PROGRAM = chain(8, 64)
MESH = load_mesh("2x-dgx-h100").part((("node", 2), ("gpu", 2)))
PARTS = replace(ALL_PARTS, presearch=False, recomputation=False, structure=False, schedule_orders=False)
OBJECTIVES = ("time_s", "peak_memory_bytes", "traffic_bytes")


def searched(evaluations: int = 6_000, **options: Any) -> tuple[Result, list[Snapshot]]:
    snapshots: list[Snapshot] = []
    result = search(
        PROGRAM,
        mesh=MESH,
        seed=1,
        islands=1,
        parts=PARTS,
        evaluations=evaluations,
        executor=InlineExecutor(),
        on_checkpoint=snapshots.append,
        checkpoint_s=0,
        **({"objectives": OBJECTIVES} | options),
    )
    return result, snapshots


@pytest.fixture(scope="module")
def found() -> tuple[Result, list[Snapshot]]:
    return searched()


def test_every_number_of_stages_has_rounds_to_keep_it_busy() -> None:
    rounds = [None, *(Rounds(n, "x", 0) for n in (2, 4, 8, 16, 32))]
    kinds = pipelines_to_search(MeshShape.of(node=2, gpu=4), RunOptions(), rounds)
    assert [(k.devices, k.rounds.count, str(k.stages), k.slack > 0) for k in kinds] == [
        ("node:1,gpu:4", 8, "2 x 1f1b", False),
        ("node:1,gpu:2", 16, "4 x 1f1b", False),
        ("node:1,gpu:1", 32, "8 x 1f1b", False),
        ("node:1,gpu:4", 8, "2 x 1f1b", True),
        ("node:1,gpu:4", 8, "2 x zb-h1", False),
        ("node:1,gpu:4", 8, "2 x interleaved", False),
        ("node:1,gpu:4", 16, "2 x 1f1b", False),
        ("node:1,gpu:2", 16, "4 x 1f1b", True),
        ("node:1,gpu:2", 16, "4 x zb-h1", False),
        ("node:1,gpu:2", 16, "4 x interleaved", False),
        ("node:1,gpu:2", 32, "4 x 1f1b", False),
        ("node:1,gpu:1", 32, "8 x 1f1b", True),
        ("node:1,gpu:1", 32, "8 x zb-h1", False),
        ("node:1,gpu:1", 32, "8 x interleaved", False),
    ]
    few = pipelines_to_search(MeshShape.of(node=2, gpu=4), RunOptions(), [None, Rounds(4, "x", 0)])
    assert [k.stages.count for k in few if k.stages.schedule == "1f1b" and not k.slack] == [2, 4]
    assert pipelines_to_search(MeshShape.of(gpu=8), RunOptions(), [None]) == []


def test_plans_with_stages_are_proven_and_compute_the_same(found: tuple[Result, list[Snapshot]]) -> None:
    result, _ = found
    staged = [plan for plan in result.frontier if plan.placements.stages is not None]
    assert staged
    inputs = random_inputs(PROGRAM, np.random.default_rng(0))
    reference = evaluate(PROGRAM, inputs)
    for plan in staged[:4]:
        checked = verify_plan(plan, MESH, inputs=inputs, execute=True, reference=reference)
        assert checked.ok and checked.executed, checked.to_json()
        costs = PlanCosts(MESH, compiled=True).costs([(plan.graph, plan.placements)])[0]
        assert all(costs[name] == value for name, value in plan.cost.items())
        graph, placements = replay_plan(PROGRAM, plan.moves, MeshShape(MESH.axis_sizes))
        assert placement_moves(graph, placements, plan.placements) == []
        assert plan.stages is not None and plan.stages["count"] in (2, 4)


@pytest.mark.slow
def test_stages_extend_the_front(found: tuple[Result, list[Snapshot]]) -> None:
    alone, _ = searched(micro_batches=1)
    assert all(plan.placements.stages is None for plan in alone.frontier)
    assert any(plan.placements.stages == Stages(2) for plan in found[0].frontier)

    def least(result: Result) -> float:
        return min(p.cost["traffic_bytes"] for p in result.frontier if p.cost["peak_memory_bytes"] < 150_000)

    assert least(found[0]) < least(alone)


@pytest.mark.slow
def test_resumed_anywhere_it_finds_the_same(found: tuple[Result, list[Snapshot]]) -> None:
    result, snapshots = found
    saved = Checkpoint.from_bytes(snapshots[len(snapshots) // 2].checkpoint().to_bytes())
    again, _ = searched(resume=saved)
    assert reported(again) == reported(result)


@pytest.mark.parametrize("stages", (1, 2, 4))
def test_a_number_of_stages_that_is_fixed_is_that_of_all_plans(stages: int) -> None:
    result, snapshots = searched(4_000, stages=stages)
    found = {plan.placements.stages.count if plan.placements.stages else 1 for plan in result.frontier}
    assert found == {stages}
    submeshes = {v.submesh for v in snapshots[-1].checkpoint().variants}
    assert len(submeshes) > 1


@pytest.mark.slow
def test_a_search_of_fixed_stages_goes_on_as_it_was() -> None:
    whole, snapshots = searched(4_000, stages=2)
    saved = Checkpoint.from_bytes(snapshots[len(snapshots) // 2].checkpoint().to_bytes())
    assert reported(searched(4_000, stages=2, resume=saved)[0]) == reported(whole)


def test_stages_go_with_micro_batches() -> None:
    result, _ = searched(4_000, stages=2, micro_batches=4)
    rounds = {plan.placements.rounds.count for plan in result.frontier if plan.placements.rounds}
    assert rounds == {4} and all(plan.placements.stages is not None for plan in result.frontier)


@pytest.mark.parametrize(
    ("options", "message"),
    (
        ({"stages": 3}, "stages: 4 devices have no 3 equal parts of one shape; possible are 1, 2, 4"),
        ({"stages": 4, "micro_batches": 2}, "stages: 4 stages need as many micro-batches"),
        ({"stages": 2, "pins": {"x": "(-, -)"}}, "stages: blocks cannot be pinned where plans have stages"),
        ({"stages": 2, "micro_batches": 7}, "micro_batches: no plan of 'chain' can run in 7 micro-batches"),
    ),
)
def test_stages_that_no_plan_has_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        searched(100, **options)


LARGE = chain(8, 4096)


def small(memory_bytes: int) -> Mesh:
    """Return the mesh with devices of so little memory, all of it for tensors."""
    beside = ("context_bytes", "workspace_bytes", "allocator_bytes", "communicator_bytes")
    figures = dict.fromkeys(beside, 0) | {"memory_bytes": memory_bytes}
    return replace(MESH, device=replace(MESH.device, **figures))


def test_a_pipeline_is_first_where_nothing_else_can_fit() -> None:
    """Give devices ever less memory: more rounds then, and more stages where these do not hold their parameters."""
    peak = max(live_bytes(LARGE))
    stored = sum(LARGE.tensors[s.outputs[0]].type.size_bytes for s in LARGE.sources if s.site.startswith("w"))
    kinds = pipelines_to_search(
        MeshShape(MESH.axis_sizes), RunOptions(), rounds_to_search(LARGE, RunOptions())
    )
    assert first_pipeline(LARGE, small(peak // 4 + 1), RunOptions(), kinds) is None
    assert first_pipeline(LARGE, small(peak // 5), RunOptions(), []) is None
    first, second, third = (
        first_pipeline(LARGE, small(room), RunOptions(), kinds)
        for room in (peak // 5, peak // 12, stored // 4)
    )
    assert first is not None and second is not None and third is not None
    assert {kind.stages.schedule for kind in (first, second, third)} == {"1f1b"}
    assert first.stages.count == second.stages.count == 2 < third.stages.count
    assert first.rounds.count < second.rounds.count
    made = max(live_bytes(LARGE, rounds=second.rounds)) - stored
    assert made * second.stages.count < 4 * (peak // 12)
    assert third.rounds.count < 512
    fixed = RunOptions(micro_batches=8)
    kinds = pipelines_to_search(MeshShape(MESH.axis_sizes), fixed, rounds_to_search(LARGE, fixed))
    kept = first_pipeline(LARGE, small(peak // 12), fixed, kinds)
    assert kept is not None and kept.rounds.count == 8


def test_the_first_pipeline_has_rounds_that_are_possible() -> None:
    graph = training_by_parts(4, 96, "float32")
    mesh, rounds = small(200), rounds_to_search(graph, RunOptions())
    kinds = pipelines_to_search(MeshShape(mesh.axis_sizes), RunOptions(), rounds)
    found = first_pipeline(graph, mesh, RunOptions(), kinds)
    assert found is not None and found.rounds.count in (2, 4)
    counts = [each.count for each in rounds_to_search(graph, RunOptions(data_parallel=4)) if each is not None]
    assert counts == [2, 4]


def test_a_search_begins_with_it() -> None:
    snapshots: list[Snapshot] = []
    result = search(
        LARGE, mesh=small(max(live_bytes(LARGE)) // 5), seed=1, islands=1, parts=PARTS, evaluations=200,
        executor=InlineExecutor(), on_checkpoint=snapshots.append, checkpoint_s=0, objectives=OBJECTIVES,
    )  # fmt: skip
    begun = snapshots[0].checkpoint().variants
    assert [(variant.submesh, variant.number) for variant in begun] == [(0, 0)]
    assert result.frontier and all(plan.placements.stages is not None for plan in result.frontier)
    assert all(plan.feasible for plan in result.frontier)


@pytest.mark.parametrize(
    "options",
    ({"tensor_parallel": 2}, {"data_parallel": 2, "tensor_parallel": 2}, {"stages": 2, "data_parallel": 2}),
)
def test_degrees_that_are_fixed_are_those_of_all_plans(options: dict[str, int]) -> None:
    result, _ = searched(4_000, **options)
    assert result.frontier
    assert {p.placements.stages.count for p in result.frontier if p.placements.stages} <= {
        options.get("stages", 2),
        4,
    }
    for plan in result.frontier:
        batch, shape = batch_dims(plan.graph), MeshShape(MESH.axis_sizes).part(plan.placements.devices)
        for block in plan.graph.blocks:
            if block.is_view or block.site not in batch:
                continue
            parts = [shape.size_of(s.axes) for s in plan.placements.of(block).strategy.splits]
            at = batch[block.site]
            assert options.get("data_parallel", parts[at]) == parts[at]
            if is_product(block.signature):
                assert options.get("tensor_parallel", prod(parts) // parts[at]) == prod(parts) // parts[at]


@pytest.mark.parametrize(
    ("options", "message"),
    (
        (
            {"data_parallel": 4, "stages": 2},
            "data_parallel: the axes node:1, gpu:2 cannot be divided for data 4",
        ),
        ({"tensor_parallel": 3}, "tensor_parallel: the axes node:2, gpu:2 cannot be divided for tensor 3"),
        (
            {"data_parallel": 4, "micro_batches": 32},
            "data_parallel: the batch of 'chain' has 2 rows in each micro-batch",
        ),
        ({"tensor_parallel": 2, "pins": {"x": "(-, -)"}}, "tensor_parallel: blocks cannot be pinned where"),
    ),
)
def test_degrees_that_no_plan_has_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=re.escape(message)):
        searched(100, **options)
