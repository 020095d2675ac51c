"""Tests of the time that a search has, and of what a deadline keeps for the checks."""

from __future__ import annotations

import math

import pytest

from tapestry.optimizer.run.clock import Deadline, OutOfTime, SearchClock
from tapestry.optimizer.run.stopping import StopRequested
from tapestry.teg.stopping import never_stop
from tests.optimizer.clocks import SetClock


def test_a_deadline_counts_down() -> None:
    now = SetClock(100.0)
    deadline = Deadline.after(20.0, now)
    now.time_s = 115.0
    assert deadline.left_s == 5.0
    now.time_s = 125.0
    assert deadline.left_s == -5.0


def test_without_a_limit_the_time_is_never_over() -> None:
    now = SetClock()
    clock = SearchClock(now=now)
    now.time_s = 1e9
    assert (clock.left_s, clock.fraction, clock.spent_s) == (math.inf, 0.0, 1e9)
    clock.check(never_stop)()


def test_seconds_are_those_since_the_search_began_and_before_it_was_saved() -> None:
    now = SetClock(50.0)
    clock = SearchClock(10.0, now=now)
    clock.spent_before_s = 4.0
    now.time_s = 53.0
    assert (clock.spent_s, clock.left_s, clock.fraction, clock.reason) == (7.0, 3.0, 0.7, "budget")
    assert clock.ends_within(3.0) and not clock.ends_within(2.9)


def test_a_deadline_keeps_time_for_the_checks_but_no_more_than_half_of_the_search() -> None:
    now = SetClock()
    clock = SearchClock(None, Deadline.after(60.0, now))
    now.time_s = 30.0
    for wanted_s, kept_s in ((4.0, 4.0), (math.inf, 20.0), (0.0, 0.0)):
        clock.reserve(wanted_s)
        assert clock.left_s == 30.0 - kept_s
    assert clock.reason == "deadline"


@pytest.mark.parametrize(("seconds", "reason"), [(5.0, "budget"), (50.0, "deadline")])
def test_the_first_limit_is_the_reason(seconds: float, reason: str) -> None:
    now = SetClock()
    clock = SearchClock(seconds, Deadline.after(20.0, now))
    now.time_s = 30.0
    assert (clock.reason, clock.fraction) == (reason, 1.0)


def test_the_check_raises_once_the_time_is_over_and_asks_for_a_stop_first() -> None:
    now = SetClock()
    clock = SearchClock(10.0, now=now)
    check = clock.check(never_stop)
    check()
    now.time_s = 10.0
    with pytest.raises(OutOfTime):
        check()

    def stop() -> None:
        raise StopRequested

    with pytest.raises(StopRequested) as raised:
        clock.check(stop)()
    assert not isinstance(raised.value, OutOfTime)


def test_with_a_deadline_half_of_the_time_is_for_preparation() -> None:
    now = SetClock()
    timed, due = SearchClock(20.0, now=now), SearchClock(None, Deadline.after(20.0, now))
    now.time_s = 12.0
    timed.check_preparation(never_stop)()
    with pytest.raises(OutOfTime):
        due.check_preparation(never_stop)()
    due.check(never_stop)()


def test_compiling_loops_counts_for_the_deadline_alone() -> None:
    now, compiled = SetClock(), SetClock(5.0)
    timed = SearchClock(10.0, now=now, compiled_s=compiled)
    due = SearchClock(None, Deadline.after(60.0, now), compiled_s=compiled)
    now.time_s, compiled.time_s = 42.0, 45.0
    assert (timed.spent_s, timed.left_s) == (2.0, 8.0)
    assert due.left_s == 18.0
