"""Tests of the checks of a frontier within a time: what is checked, what is executed, what is left out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tapestry.optimizer import Result, RunOptions
from tapestry.optimizer.analysis.frontier_verification import (
    FIRST,
    LATER,
    MARGIN,
    TimedVerifier,
    by_importance,
)
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.optimizer.run.clock import Deadline, OutOfTime
from tapestry.optimizer.run.workers import InlineExecutor
from tapestry.service.frontier_checks import (
    CheckTimer,
    ExecutionBudget,
    check_frontier,
    checking_deadline,
    count_plans,
    storing_seconds,
)
from tapestry.service.presentation import result_document
from tests.optimizer.clocks import CountingClock, ListedClock, SetClock
from tests.optimizer.searches import EIGHT, search
from tests.service.programs import two_layers

AUTO, DRY = RunOptions(), RunOptions(verify="dry")


@pytest.fixture(scope="module")
def result() -> Result:
    return search(two_layers(), evaluations=3000)


def test_processes_help_and_the_results_are_the_same(result: Result) -> None:
    here = dict(_by_id(result, None))
    helped = dict(_by_id(result, InlineExecutor()))
    assert helped == here
    assert len(here) == len(result.frontier)


def _by_id(result: Result, executor: InlineExecutor | None) -> list[tuple[str, object]]:
    counted = count_plans(result.frontier, TimedVerifier(EIGHT), executor, processes=2)
    return [(plan.id, verified) for plan, verified in counted]


def at_once() -> TimedVerifier:
    """Return a verifier by whose clocks plans take no time."""
    return TimedVerifier(EIGHT, None, SetClock(), SetClock())


def test_no_plan_is_begun_that_would_end_after_the_deadline(result: Result) -> None:
    """Check plans that take a second by the clock of the verifier; that of the deadline shows what is left."""
    verifier = TimedVerifier(EIGHT, None, CountingClock(), CountingClock())
    for plan in result.frontier[:FIRST]:
        verifier.verify(plan)
    assert verifier.next_s == 1.0
    deadline = Deadline(0.0, ListedClock(-2.1, -1.1, -0.9))
    assert len(list(count_plans(result.frontier, verifier, None, deadline=deadline))) == 2


def test_plans_past_the_deadline_are_left_out_and_marked(result: Result) -> None:
    options = RunOptions(verify="dry", deadline_seconds=60.0)
    checked = check_frontier(result, options, deadline=Deadline(3.5, CountingClock()), verifier=at_once())

    ordered = by_importance(result.frontier, result.objectives)
    assert list(checked.verified) == [plan.id for plan in ordered[:3]]
    document = result_document(result, checked, options)
    assert document["checks"]["verified"] == 3
    assert document["checks"]["unchecked"] == len(result.frontier) - 3
    assert document["unchecked_because"] == "the deadline"
    marks = {plan["id"]: plan["verified"] for plan in document["frontier"]}
    assert {plan_id for plan_id, mark in marks.items() if mark is None} == {plan.id for plan in ordered[3:]}


def test_representative_plans_are_executed_and_announced_with_an_estimate(result: Result) -> None:
    announced = list[tuple[int, int, float]]()
    checked = check_frontier(
        result, AUTO, on_execution=lambda *execution: announced.append(execution), now=CountingClock()
    )
    roles = {plan.id for plan in representative_plans(result.frontier, result.objectives).values()}
    assert checked.executions.keys() == roles
    assert [number for number, _, _ in announced] == list(range(len(roles) + 1))
    assert {total for _, total, _ in announced} == {len(roles)}
    # By this clock the program and every plan take a second: so do then the plans by the corrected estimate.
    assert announced[-1][2] == pytest.approx(1.0, rel=0.5)
    assert all(verified["values"]["executed"] == (p in roles) for p, verified in checked.verified.items())


def test_no_plan_is_executed_for_which_there_is_no_time(result: Result) -> None:
    none = check_frontier(result, RunOptions(execution_seconds=0.0))
    assert not none.executions
    assert len(none.verified) == len(result.frontier)


def test_executions_end_with_their_seconds(result: Result) -> None:
    """Check 2.5 s by a clock by which the program and each plan take one: a single plan is executed."""
    checked = check_frontier(result, RunOptions(execution_seconds=2.5), now=CountingClock())
    assert len(checked.executions) == 1


def test_a_budget_of_executions_allows_what_option_and_deadline_leave() -> None:
    now = SetClock()
    budget = ExecutionBudget(RunOptions(execution_seconds=30.0), Deadline(20.0, now))
    assert budget.allows(20.0) and not budget.allows(21.0)
    budget.spend(25.0)
    assert budget.allows(5.0) and not budget.allows(6.0)
    budget.check_stop()
    now.time_s = 20.0
    with pytest.raises(OutOfTime):
        budget.check_stop()
    assert ExecutionBudget(RunOptions(verify="execute", execution_seconds=0.0), None).allows(1e6)


def test_storing_has_its_share_of_a_deadline() -> None:
    now = SetClock()
    kept = checking_deadline(Deadline(100.0, now), RunOptions(deadline_seconds=100.0))
    assert kept is not None and 90.0 <= kept.left_s < 100.0
    measured = checking_deadline(Deadline(100.0, now), RunOptions(deadline_seconds=100.0), storing_s=30.0)
    assert measured is not None and measured.left_s == 70.0
    assert checking_deadline(None, AUTO) is None


def test_what_storing_takes_is_measured_and_kept_beyond_its_share(result: Result) -> None:
    """Check a clock that goes on by a second per question: a second for the program, and three per plan."""
    options = RunOptions(verify="none", deadline_seconds=40.0)
    timer = CheckTimer(result.graph, EIGHT, options, 1, CountingClock(), CountingClock(), is_stored=True)
    assert timer.storing_s == 1.0
    assert timer(result.frontier[:2], 10) == 1.0 + 3 * 10 - 0.05 * 40.0
    assert timer.storing_s == 31.0
    assert timer(result.frontier[:1], 64) == 29.0, "it is measured once"
    weights = {"w": np.ones((2**17,), np.float32)}
    with_data = replace(result.graph, data=weights)
    assert storing_seconds(with_data, CountingClock()) == 1.0 + 2.0


def test_the_estimate_of_the_checks_depends_on_what_is_requested(result: Result) -> None:
    """Check clocks by which each of two plans takes a second."""
    dry_s = MARGIN * (1.0 + 63 * LATER)

    def estimate(options: RunOptions) -> float:
        timer = CheckTimer(result.graph, EIGHT, options, 1, CountingClock(), CountingClock())
        return timer(result.frontier[:2], 64)

    assert estimate(RunOptions(verify="none")) == 0.0
    assert estimate(DRY) == dry_s
    assert estimate(RunOptions(execution_seconds=0.0)) == dry_s
    assert dry_s < estimate(AUTO) <= dry_s + AUTO.execution_seconds
    assert CheckTimer(result.graph, EIGHT, DRY, 1)((), 64) == 0.0
