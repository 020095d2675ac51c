"""Tests that a search keeps its time: preparation counts, a deadline leaves time for the checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

import tapestry
from tapestry.optimizer import Plan, Progress, RunOptions, verify_plan
from tapestry.optimizer.analysis import frontier_verification
from tapestry.optimizer.archive.report import LARGEST_FRONTIER
from tapestry.optimizer.run import search as searching
from tapestry.optimizer.run.clock import Deadline, SearchClock
from tapestry.service.frontier_checks import CheckTimer, check_frontier
from tests.costmodel.programs import GRAPHS
from tests.optimizer.clocks import CountingClock, SetClock
from tests.optimizer.searches import EIGHT, frontier, search

ENDLESS = 50_000_000


@pytest.mark.parametrize("questions", [1, 30, 120])
def test_a_search_ends_at_its_deadline_and_has_plans(questions: int) -> None:
    """Check deadlines before the preparation, in it, and later; the clock goes on by a second per question."""
    now = CountingClock()
    result = search(evaluations=ENDLESS, deadline=Deadline(questions, now))
    assert result.stopped == "deadline"
    assert result.frontier
    for plan in result.frontier[:2]:
        assert verify_plan(plan, EIGHT).ok


@pytest.mark.slow
def test_more_time_for_the_preparation_makes_a_richer_one() -> None:
    first, later = (search(evaluations=ENDLESS, deadline=Deadline(n, CountingClock())) for n in (30, 400))
    assert first.evaluations < later.evaluations


def test_rounds_end_where_the_checks_need_the_time() -> None:
    """Check the estimate gets two first plans, and a search of 100 s of which 20 are kept ends at 80."""
    now, given = SetClock(), list[int]()

    def reserve(plans: Sequence[Plan], count: int) -> float:
        given.append(len(plans))
        return 20.0

    def tick(progress: Progress) -> None:
        if progress.phase == "searching":
            now.time_s += 20.0

    result = search(evaluations=ENDLESS, deadline=Deadline(100.0, now), reserve=reserve, on_progress=tick)

    assert given == [2, 1, 1, 1], "two first plans, then one of the front after 20, 40 and 60 s"
    assert result.stopped == "deadline"
    assert now.time_s == 80.0
    assert result.seconds == 80.0
    assert result.history[-1].fraction == pytest.approx(0.75)


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


def test_all_plans_are_checked_in_time_on_a_machine_that_others_use(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_seconds_count_the_preparation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that of ten seconds of which the preparation takes six four are left for rounds of two."""
    now = SetClock()
    monkeypatch.setattr(
        searching, "SearchClock", lambda seconds, deadline: SearchClock(seconds, deadline, now)
    )

    def tick(progress: Progress) -> None:
        now.time_s += {"compiling": 5.0, "seeding": 1.0, "searching": 2.0}[progress.phase]

    result = search(budget=tapestry.Budget(seconds=10.0), on_progress=tick)

    assert (result.stopped, result.seconds, len(result.history)) == ("budget", 10.0, 2)
    assert [progress.seconds for progress in result.history] == [6.0, 8.0]


@pytest.mark.slow
def test_a_search_that_its_deadline_ends_after_its_preparation_is_repeated_by_its_evaluations() -> None:
    now = SetClock()

    def tick(progress: Progress) -> None:
        now.time_s += progress.phase == "searching"

    ended = search(evaluations=ENDLESS, seed=3, deadline=Deadline(6.0, now), on_progress=tick)
    again = search(evaluations=ended.evaluations, seed=3)
    assert frontier(again) == frontier(ended)


def test_the_deadline_of_a_call_includes_what_is_before_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    given = list[Deadline]()

    def note(*_: object, deadline: Deadline, **__: object) -> None:
        given.append(deadline)

    monkeypatch.setattr("tapestry.optimizer.api.search", note)
    monkeypatch.setattr("tapestry.optimizer.api.time", type("Clock", (), {"perf_counter": lambda: 7.0}))
    tapestry.optimize(GRAPHS["attention"](), "dgx-h100", deadline_seconds=5.0)
    tapestry.optimize(GRAPHS["attention"](), "dgx-h100", budget=tapestry.Budget(deadline_seconds=3.0))
    assert [deadline.at_s for deadline in given] == [12.0, 10.0]
