"""Tests of the order of waiting jobs: fair among tenants, without starvation, and of when each is expected to begin."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tapestry.optimizer import RunOptions
from tapestry.service.scheduling import (
    HALF_LIFE_S,
    ExpectedStart,
    Shares,
    Spread,
    Waiting,
    decayed,
    expected_seconds,
    in_order,
    next_job,
    spread_of,
    starts,
)
from tests.cases import examples

EVEN = Spread(1.0, 1.0, 1.0, is_guess=False)


def job(number: int, tenant: str = "a", priority: int = 0, expected_s: float = 10.0) -> Waiting:
    return Waiting(f"job{number}", tenant, priority, number, expected_s)


@st.composite
def queues(draw: st.DrawFn) -> tuple[list[Waiting], Shares]:
    tenants = st.sampled_from("abcd")
    lengths = st.integers(0, 100).map(float)  # with weights that are powers of two all sums are exact
    shapes = draw(st.lists(st.tuples(tenants, st.integers(-1, 1), lengths), max_size=30))
    waiting = [job(number, *shape) for number, shape in enumerate(shapes)]
    used = draw(st.dictionaries(tenants, lengths))
    weights = draw(st.dictionaries(tenants, st.sampled_from((0.25, 0.5, 2.0, 4.0))))
    return waiting, Shares(used, weights)


def claimed(waiting: list[Waiting], shares: Shares) -> list[Waiting]:
    """Claim one job after the other by the rule for a single claim."""
    left, used, order = list(waiting), dict(shares.used_s), []
    while left:
        taken = next_job(left, Shares(used, shares.weights))
        assert taken is not None
        left.remove(taken)
        order.append(taken)
        used[taken.tenant] = used.get(taken.tenant, 0.0) + max(taken.expected_s, 1.0)
    return order


@settings(max_examples=examples(200))
@given(queues())
def test_every_job_is_claimed_in_the_order_of_single_claims(given: tuple[list[Waiting], Shares]) -> None:
    waiting, shares = given
    order = list(in_order(waiting, shares))
    assert Counter(order) == Counter(waiting)
    assert [j.priority for j in order] == sorted((j.priority for j in waiting), reverse=True)
    for tenant, priority in {(j.tenant, j.priority) for j in waiting}:  # of one tenant the oldest first
        own = [j.number for j in order if (j.tenant, j.priority) == (tenant, priority)]
        assert own == sorted(own)
    assert order == claimed(waiting, shares)


@settings(max_examples=examples(200))
@given(queues())
def test_no_tenant_gets_ahead_by_more_than_a_job(given: tuple[list[Waiting], Shares]) -> None:
    """Check that whoever has less than another, and waits, is next: levels differ by one job at most."""
    waiting, shares = given
    used = dict(shares.used_s)
    left = list(waiting)
    for taken in in_order(waiting, shares):
        now = Shares(used, shares.weights)
        rivals = {j.tenant for j in left if j.priority == taken.priority}
        least = min(now.level(tenant) for tenant in rivals)
        assert now.level(taken.tenant) == least
        left.remove(taken)
        used[taken.tenant] = used.get(taken.tenant, 0.0) + max(taken.expected_s, 1.0)


@settings(max_examples=examples(50))
@given(st.integers(1, 8), st.floats(0, 60), st.floats(1, 60))
def test_a_thousand_runs_delay_one_of_another_by_the_running_ones(
    places: int, expected_s: float, own_s: float
) -> None:
    many = [job(number, "many", expected_s=expected_s) for number in range(1000)]
    running = many[:places]
    used = {"many": sum(max(j.expected_s, 1.0) for j in running)}
    one = job(5000, "one", expected_s=own_s)
    assert next(in_order([*many[places:], one], Shares(used))) == one
    (begin,) = starts([one], [(j.expected_s, 0.0) for j in running], places, EVEN)
    assert begin.expected_s <= max(expected_s, 1.0)


@settings(max_examples=examples(50))
@given(st.floats(0, 10_000), st.lists(st.floats(0, 30), min_size=1, max_size=20))
def test_whoever_has_used_much_waits_only_until_the_others_have_as_much(
    used_s: float, arriving: list[float]
) -> None:
    """Check that a tenant whose rivals never stop asking is served once these have caught up."""
    mine = job(10**6, "mine")
    waits = [mine, *(job(n, "others", expected_s=s) for n, s in enumerate(arriving))]
    used, claims = {"mine": used_s, "others": 0.0}, 0
    while (taken := next_job(waits, Shares(used))) != mine:
        assert taken is not None
        used["others"] += max(taken.expected_s, 1.0)
        waits.append(replace(taken, number=taken.number + len(arriving)))  # asks again
        waits.remove(taken)
        claims += 1
    assert claims <= math.ceil(used_s) + 1


def test_twice_the_weight_is_twice_as_much() -> None:
    waiting = [job(2 * n + k, tenant) for n in range(60) for k, tenant in enumerate("ab")]
    served = Counter(j.tenant for j in islice(in_order(waiting, Shares(weights={"a": 2.0})), 45))
    assert served == {"a": 30, "b": 15}


def test_what_was_used_long_ago_counts_less_and_clocks_set_back_do_nothing() -> None:
    assert decayed(80.0, 2 * HALF_LIFE_S) == 20.0
    assert decayed(80.0, -3600.0) == 80.0


def test_ten_thousand_jobs_are_ordered_by_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count the ranks that are computed: one per job, not one per job and tenant."""
    count = 0

    def counted(shares: Shares, tenant: str) -> float:
        nonlocal count
        count += 1
        return shares.used_s.get(tenant, 0.0)

    monkeypatch.setattr(Shares, "level", counted)
    waiting = [job(number, f"tenant{number % 100}") for number in range(10_000)]
    assert len(list(in_order(waiting, Shares()))) == 10_000
    assert count <= 10_000


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [
        ({}, 20.0),
        ({"seconds": 7.0}, 7.0),
        ({"seconds": 90.0, "deadline_seconds": 60.0}, 60.0),
        ({"evaluations": 100_000}, 20.0),
        ({"evaluations": 1}, 1.0),
    ],
)
def test_the_limits_of_a_run_say_for_how_long_it_searches(limits: dict[str, float], seconds: float) -> None:
    assert expected_seconds(RunOptions(**limits)) == seconds  # type: ignore[arg-type]


def test_starts_follow_from_what_runs_and_how_long_runs_took() -> None:
    order = [job(1), job(2, expected_s=4.0), job(3)]
    running = [(10.0, 4.0), (30.0, 0.0)]
    assert [s.expected_s for s in starts(order, running, 2, EVEN)] == [6.0, 16.0, 20.0]
    assert [s.expected_s for s in starts(order, running, 4, EVEN)] == [0.0, 0.0, 4.0]
    spread = spread_of([1.0, 1.0, 2.0, 2.0, 3.0])
    assert spread == Spread(1.0, 2.0, pytest.approx(2.6), is_guess=False)
    assert starts(order[:1], [(10.0, 4.0)], 1, spread) == [ExpectedStart(16.0, 6.0, pytest.approx(22.0))]
    assert spread_of([5.0] * 4).is_guess


@settings(max_examples=examples(100))
@given(queues(), st.lists(st.tuples(st.floats(0, 60), st.floats(0, 60)), max_size=4), st.integers(1, 4))
def test_estimates_are_ordered(
    given: tuple[list[Waiting], Shares], running: list[tuple[float, float]], more: int
) -> None:
    found = starts(list(in_order(*given)), running, len(running) + more, spread_of([]))
    assert all(0 <= s.earliest_s <= s.expected_s <= s.latest_s for s in found)
    assert [s.expected_s for s in found] == sorted(s.expected_s for s in found)
