"""Tests of the leads of plans in time: with whom each is compared, what is within the error, and on what it rests."""

from __future__ import annotations

from typing import Any

import pytest

from tapestry.hardware.timing import ClassTime, TimeEstimate
from tapestry.service.leads import lead_among, leads, time_of, with_leads


def estimate(softmax_s: float, copy_s: float, *, copy_error: float = 0.1) -> TimeEstimate:
    return TimeEstimate({"softmax.fp32": ClassTime(softmax_s, 0.2), "copy": ClassTime(copy_s, copy_error)})


def document(plan_id: str, time: TimeEstimate | None, cost_model: int = 12, **more: Any) -> dict[str, Any]:
    shown = None if time is None else time.to_json()
    return {"id": plan_id, "time": shown, "verified": None, "cost_model": cost_model, **more}


def test_plans_are_compared_with_the_fastest_and_that_with_the_next() -> None:
    times = {"slow": estimate(1e-3, 4e-3), "fast": estimate(1e-3, 1e-3), "next": estimate(1e-3, 2e-3)}
    found = leads({**times, "unknown": None})
    assert {plan: lead.other for plan, lead in found.items()} == {
        "fast": "next",
        "next": "fast",
        "slow": "fast",
    }
    assert found["fast"].difference == times["fast"].difference(times["next"])
    assert found["fast"].difference.seconds == pytest.approx(1e-3)
    assert found["slow"].difference.seconds == pytest.approx(-3e-3)
    assert {lead.difference.rests_on for lead in found.values()} == {"copy"}
    assert not any(lead.difference.is_within_error for lead in found.values())


def test_a_lead_that_rests_on_a_class_that_is_known_less_is_within_the_error() -> None:
    """Widen the error of copies, of which the slower plan has more: the same difference is no longer certain."""
    for error, is_within in ((0.1, False), (2.0, True)):
        times = {"a": estimate(1e-3, 1e-3, copy_error=error), "b": estimate(1e-3, 1.2e-3, copy_error=error)}
        found = leads(times)["a"].difference
        assert (found.is_within_error, found.rests_on) == (is_within, "copy")
        assert found.error_s == pytest.approx(0.2e-3 * error), "what both have in common cancels out"
        low, high = found.seconds - 1.645 * found.error_s, found.seconds + 1.645 * found.error_s
        assert (low < 0 < high) == is_within


def test_equal_times_have_no_lead_and_one_plan_is_alone() -> None:
    found = leads({"b": estimate(1e-3, 1e-3), "a": estimate(1e-3, 1e-3)})
    assert (found["a"].other, found["b"].other) == ("b", "a")
    assert found["a"].difference.rests_on == "" and found["a"].difference.is_within_error
    assert leads({"a": estimate(1e-3, 1e-3), "unknown": None}) == {}


def test_only_costs_of_one_model_are_compared() -> None:
    plans = [document(name, estimate(1e-3, 1e-3 * k), k % 2) for k, name in enumerate("abcde", start=1)]
    found = {plan["id"]: plan["lead"]["other"] for plan in with_leads(plans)}
    assert found == {"a": "c", "c": "a", "e": "a", "b": "d", "d": "b"}
    assert with_leads([plans[0], plans[1]])[0]["lead"] is None


def test_a_plan_that_left_the_frontier_is_compared_too() -> None:
    frontier = [document("a", estimate(1e-3, 1e-3)), document("b", estimate(1e-3, 3e-3))]
    gone = lead_among(document("gone", estimate(1e-3, 2e-3)), frontier)
    assert gone is not None and (gone["other"], gone["seconds"]) == ("a", pytest.approx(-1e-3))
    here = lead_among(frontier[0], frontier)
    assert here is not None and here["other"] == "b"


def test_plans_stored_without_their_time_have_that_of_their_checks() -> None:
    time, checked = estimate(1e-3, 1e-3), estimate(2e-3, 1e-3)
    assert time_of(time.to_json(), {"time": checked.to_json()}) == time
    assert time_of(None, {"time": checked.to_json()}) == checked
    other = {"time": checked.to_json(), "cost_model": {"predicted": 1, "counted": 2}}
    assert time_of(None, other) is None and time_of(None, {}) is None and time_of(None, None) is None
