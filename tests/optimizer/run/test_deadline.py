"""Tests that a search keeps its time: preparation counts, a deadline leaves time for the checks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

import tapestry
from tapestry.optimizer import Plan, Progress, verify_plan
from tapestry.optimizer.run import search as searching
from tapestry.optimizer.run.clock import Deadline, SearchClock
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
