"""Tests that a search keeps as much of a deadline for the checks as plans are measured to take on the way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tapestry.optimizer import Plan, Progress, RunOptions
from tapestry.optimizer.analysis import frontier_verification
from tapestry.optimizer.archive.report import LARGEST_FRONTIER
from tapestry.optimizer.run.clock import Deadline
from tapestry.service.frontier_checks import CheckTimer, check_frontier
from tests.costmodel.programs import GRAPHS
from tests.optimizer.clocks import SetClock
from tests.optimizer.searches import EIGHT, search

pytestmark = pytest.mark.slow

ENDLESS = 50_000_000


def test_the_reserve_grows_with_what_is_measured_on_the_way() -> None:
    """Check plans that take longer the later they are found: of 120 s so much is kept as the last estimate says.

    That is made in a round of 8 s, which is ended before the search is.
    """
    now, kept = SetClock(), list[float]()

    def reserve(plans: Sequence[Plan], count: int) -> float:
        kept.append(10.0 if len(plans) == 2 else now.time_s / 4)
        assert 1 <= count <= LARGEST_FRONTIER
        return kept[-1]

    def tick(progress: Progress) -> None:
        now.time_s += 8.0 * (progress.phase == "searching")

    result = search(evaluations=ENDLESS, deadline=Deadline(120.0, now), reserve=reserve, on_progress=tick)

    assert kept == [10.0, 8.0, 14.0, 20.0, 24.0]
    assert (result.stopped, now.time_s) == ("deadline", 96.0 + 8.0)


def test_all_plans_are_checked_in_time_although_others_use_the_processor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Check a plan that takes a second, the first one four, and three times that once others use the machine."""
    now, processor_now = SetClock(), SetClock()
    real = frontier_verification.verify_plan

    def verify(*given: Any, cache: Any, **named: Any) -> Any:
        work_s = 1.0 if cache._found else 4.0
        processor_now.time_s += work_s
        now.time_s += work_s * (3.0 if now.time_s > 200.0 else 1.0)
        return real(*given, cache=cache, **named)

    def tick(progress: Progress) -> None:
        now.time_s += (60.0 if now.time_s < 640.0 else 4.0) * (progress.phase == "searching")

    monkeypatch.setattr(frontier_verification, "verify_plan", verify)
    options, deadline = RunOptions(verify="dry", evaluations=ENDLESS, islands=1), Deadline(900.0, now)
    timer = CheckTimer(GRAPHS["attention"](), EIGHT, options, 1, now, processor_now)
    result = search(evaluations=ENDLESS, deadline=deadline, reserve=timer, on_progress=tick)
    ended_s = now.time_s
    assert result.stopped == "deadline"
    checked = check_frontier(result, options, deadline=deadline, verifier=timer.verifier)

    assert len(checked.verified) == len(result.frontier) > 10
    assert 0 < deadline.left_s < 90.0
    assert now.time_s - ended_s <= ended_s / 2
