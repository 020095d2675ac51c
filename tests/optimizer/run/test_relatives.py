"""Tests of plans of related programs: planted by names, made again with their moves, never in the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tapestry.hardware import load_mesh
from tapestry.optimizer import Checkpoint, Result, Snapshot
from tapestry.optimizer.analysis.verification import verify_plan
from tapestry.optimizer.run.relatives import RelatedPlan
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.teg.sharding.placement import SCHEDULE_ORDERS
from tests.optimizer.run.resumed import reported
from tests.optimizer.searches import EIGHT, search
from tests.teg.test_family import stack

pytestmark = pytest.mark.slow

DEEPER = {"graph": stack(5, width=8192), "seed": 7, "executor": InlineExecutor()}


@pytest.fixture(scope="module")
def relatives() -> list[RelatedPlan]:
    found = search(stack(2, width=4096), evaluations=20_000, executor=InlineExecutor())
    assert any(plan.placements.blocks for plan in found.frontier)
    return [RelatedPlan(plan.moves, plan.placements) for plan in found.frontier]


def least(result: Result) -> float:
    return min(plan.cost["time_s"] for plan in result.frontier)


def test_plans_of_fewer_and_smaller_layers_are_placements_of_more(relatives: list[RelatedPlan]) -> None:
    alone = search(**DEEPER, evaluations=1, seeds=False)
    planted = search(**DEEPER, evaluations=1, seeds=False, relatives=relatives)
    assert planted.started_from > 0 == alone.started_from
    assert least(planted) < least(alone)
    for plan in planted.frontier[:3]:
        assert verify_plan(plan, EIGHT).ok


def test_names_that_no_plan_has_change_nothing(relatives: list[RelatedPlan]) -> None:
    others = {**DEEPER, "graph": stack(3, width=4096, prefix="other")}
    alone = search(**others, evaluations=5000)
    planted = search(**others, evaluations=5000, relatives=relatives)
    assert least(planted) <= 1.01 * least(alone)


def test_a_search_that_was_stopped_goes_on_with_the_relatives_it_had_left(
    relatives: list[RelatedPlan],
) -> None:
    saved: list[bytes] = []

    def keep(snapshot: Snapshot) -> None:
        saved.append(snapshot.checkpoint().to_bytes())

    options = {**DEEPER, "evaluations": 20_000}
    whole = search(**options, relatives=relatives, on_checkpoint=keep, checkpoint_s=0)
    first = Checkpoint.from_bytes(saved[0])
    assert [start.kind for start in first.starts[:1]] == ["relative"] and first.starts[0].plans
    assert reported(search(**options, resume=first)) == reported(whole)


def test_relatives_in_another_schedule_order_keep_their_view_when_views_are_ranked(
    relatives: list[RelatedPlan],
) -> None:
    last = SCHEDULE_ORDERS[-1]
    others = [RelatedPlan(moves, replace(placements, schedule_order=last)) for moves, placements in relatives]
    saved: list[bytes] = []

    def keep(snapshot: Snapshot) -> None:
        saved.append(snapshot.checkpoint().to_bytes())

    options = {**DEEPER, "mesh": load_mesh("2x-dgx-h100"), "evaluations": 20_000}
    whole = search(**options, relatives=others, on_checkpoint=keep, checkpoint_s=0)
    assert whole.started_from and len(saved) > 2
    assert not any(start.kind == "views" for start in Checkpoint.from_bytes(saved[-1]).starts)
