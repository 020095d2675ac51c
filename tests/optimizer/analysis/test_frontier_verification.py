"""Tests that the plans of a frontier are verified together as each alone, the most important ones first."""

from __future__ import annotations

from dataclasses import replace

import pytest

import tapestry
from tapestry.optimizer import Plan, Result, verify_plan
from tapestry.optimizer.analysis.frontier_verification import (
    FIRST,
    LATER,
    MARGIN,
    FrontierVerifier,
    Helpers,
    TimedVerifier,
    by_importance,
    verified_until,
)
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.optimizer.run.clock import Deadline
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.result_cache import ResultCache
from tests.optimizer.clocks import CountingClock, ListedClock, SetClock
from tests.optimizer.searches import EIGHT, search


@pytest.fixture(scope="module")
def result() -> Result:
    return search(evaluations=4000, seed=1)


def alone(plan: Plan) -> dict[str, object]:
    """Return the verdict on a plan that nothing is kept for."""
    used = MeshShape(EIGHT.axis_sizes).part(plan.placements.devices)
    return verify_plan(plan, EIGHT, cache=ResultCache(used, most=0)).to_json()


@pytest.mark.slow
def test_plans_are_verified_together_as_each_alone(result: Result) -> None:
    verifier = FrontierVerifier(EIGHT)
    assert len(result.frontier) > 5
    for plan in result.frontier:
        together, separate = verifier.verify(plan), verify_plan(plan, EIGHT)
        assert together.ok
        assert together.to_json() == separate.to_json() == alone(plan)
        counts = (together.execution, separate.execution)
        assert counts[0].makespan_ticks == counts[1].makespan_ticks
        assert (counts[0].memory_bytes == counts[1].memory_bytes).all()
        assert (counts[0].flops == counts[1].flops).all()
        assert (counts[0].received_bytes == counts[1].received_bytes).all()
        assert counts[0].axis_bytes == counts[1].axis_bytes


def test_a_wrong_prediction_is_found_among_plans_that_hold(result: Result) -> None:
    verifier = FrontierVerifier(EIGHT)
    for plan in result.frontier:
        verifier.verify(plan)
    plan = result.frontier[0]
    wrong = replace(plan, cost={**plan.cost, "traffic_bytes": 1 + plan.cost["traffic_bytes"]})
    assert not verifier.verify(wrong).ok
    assert verifier.verify(wrong).to_json() == alone(wrong)


def test_helpers_give_the_same_verdicts(result: Result) -> None:
    helpers = Helpers(InlineExecutor(), EIGHT, None)
    for plan in result.frontier[:4]:
        assert helpers.verify(plan).result() == alone(plan)


def test_the_representative_plans_come_first_then_the_fastest(result: Result) -> None:
    ordered = by_importance(result.frontier, result.objectives)
    first = list(
        dict.fromkeys(p.id for p in representative_plans(result.frontier, result.objectives).values())
    )
    assert [plan.id for plan in ordered[: len(first)]] == first
    times = [plan.cost["time_s"] for plan in ordered[len(first) :]]
    assert times == sorted(times)
    assert {plan.id for plan in ordered} == {plan.id for plan in result.frontier}
    assert by_importance((), result.objectives) == ()


def test_plans_are_left_when_the_time_is_over(result: Result) -> None:
    """Check a clock that is read once to begin and once per plan: three plans fit into three seconds."""
    checked = verified_until(result, Deadline.after(3.5, CountingClock()))
    ordered = by_importance(result.frontier, result.objectives)
    assert list(checked) == [plan.id for plan in result.frontier]
    assert [checked[plan.id] is not None for plan in ordered] == [True] * 3 + [False] * (len(ordered) - 3)
    assert all(verdict is None or verdict.ok for verdict in checked.values())


def test_without_a_limit_all_plans_are_verified(result: Result) -> None:
    assert all(verdict is not None and verdict.ok for verdict in tapestry.verify_frontier(result).values())


def test_the_estimate_follows_the_plans_that_were_verified_and_the_load(
    result: Result,
) -> None:
    """Check two first plans of 2 s and 1 s of work, and two of a frontier, the last one while others work too."""
    plans = result.frontier
    processor_now = ListedClock(0, 2, 10, 11, 20, 21.5, 30, 30.5)
    now = ListedClock(0, 2, 10, 11, 20, 21.5, 30, 31.5)
    timer = TimedVerifier(EIGHT, None, now, processor_now)
    assert (timer.next_s, timer.frontier_s(64, 2)) == (0.0, 0.0)
    for plan in plans[:FIRST]:
        timer.verify(plan)
    assert timer.next_s == 1.0
    assert timer.frontier_s(64, 2) == MARGIN * (2.0 + 63 * LATER * 1.5 / 2)
    assert timer.verify(plans[2]).to_json() == alone(plans[2])
    assert (timer.next_s, timer.frontier_s(41, 2)) == (1.5, MARGIN * (2.0 + 40 * 1.5 / 2))
    timer.verify(plans[3])
    assert timer.slowdown == (1 + 1.5 + 1.5) / (1 + 1.5 + 0.5)
    assert timer.next_s == timer.slowdown * 1.5
    assert timer.frontier_s(41, 2) == MARGIN * timer.slowdown * (2.0 + 40 * 1.5 / 2)
    assert timer.frontier_s(0, 2) == 0.0


def test_a_clock_of_the_processor_that_stands_still_is_no_load(result: Result) -> None:
    timer = TimedVerifier(EIGHT, None, CountingClock(), SetClock())
    timer.verify(result.frontier[0])
    assert timer.next_s == 0.0
