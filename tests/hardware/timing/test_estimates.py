"""Tests of estimates of times: intervals, and differences in which common errors cancel out."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tapestry.hardware.timing import TICKS_PER_S, ClassTime, TimeClass, TimeEstimate


def estimate(**classes: tuple[float, float]) -> TimeEstimate:
    return TimeEstimate({name: ClassTime(*each) for name, each in classes.items()})


def test_errors_of_one_class_add_up_and_those_of_several_average_out() -> None:
    thousand = {TimeClass("softmax", 0.1): 1000 * TICKS_PER_S}
    assert TimeEstimate.of(thousand).error == pytest.approx(0.1)
    assert estimate(a=(1.0, 0.3), b=(1.0, 0.4)).error == pytest.approx(0.25)
    mixed = TimeEstimate.of({TimeClass("all_gather on gpu", e): TICKS_PER_S for e in (0.1, 0.2)})
    assert mixed.classes["all_gather on gpu"] == ClassTime(2.0, pytest.approx(0.15))


def test_intervals_hold_the_share_that_they_say() -> None:
    """Draw what the model says: each class is off by a common log-normal factor."""
    plan = estimate(a=(3.0, 0.1), b=(1.0, 0.2), c=(0.5, 0.05))
    rng = np.random.default_rng(7)
    factors = np.exp(rng.normal(size=(20_000, 3)) * [0.1, 0.2, 0.05])
    times = factors @ [3.0, 1.0, 0.5]
    for probability in (0.5, 0.9):
        low, high = plan.interval(probability)
        assert low < plan.seconds < high
        assert ((low <= times) & (times <= high)).mean() == pytest.approx(probability, abs=0.02)


def test_common_errors_cancel_out_and_the_class_of_the_lead_is_named() -> None:
    fast, slow = estimate(a=(10.0, 0.3), b=(1.0, 0.1)), estimate(a=(10.0, 0.3), b=(1.5, 0.1), c=(0.1, 0.2))
    found = fast.difference(slow)
    assert found.seconds == pytest.approx(0.6)
    assert found.error_s == pytest.approx(np.hypot(0.05, 0.02))
    assert (found.rests_on, found.lead_s) == ("b", pytest.approx(0.5))
    assert not found.is_within_error and found.probability > 0.999
    other_way = slow.difference(fast)
    assert (other_way.seconds, other_way.rests_on) == (pytest.approx(-0.6), "b")
    assert other_way.probability == found.probability
    assert fast.difference(slow, same_mesh=False).is_within_error


def test_a_difference_within_the_error_is_called_so() -> None:
    found = estimate(a=(1.0, 0.2)).difference(estimate(b=(1.01, 0.2)))
    assert found.is_within_error and 0.5 < found.probability < 0.55
    same = estimate(a=(1.0, 0.2)).difference(estimate(a=(1.0, 0.2)))
    assert (same.seconds, same.error_s, same.probability, same.rests_on) == (0.0, 0.0, 0.5, "")


def test_the_probability_is_that_of_draws() -> None:
    one, other = estimate(a=(2.0, 0.05), b=(1.0, 0.1)), estimate(a=(1.0, 0.05), b=(2.05, 0.1))
    rng = np.random.default_rng(11)
    factors = np.exp(rng.normal(size=(20_000, 2)) * [0.05, 0.1])
    is_slower = factors @ [2.0, 1.0] < factors @ [1.0, 2.05]
    assert one.difference(other).probability == pytest.approx(is_slower.mean(), abs=0.02)


def test_estimates_are_read_back() -> None:
    plan = estimate(a=(3.0, 0.1), b=(1.0, 0.2))
    document = json.loads(json.dumps(plan.to_json()))
    assert TimeEstimate.from_json(document) == plan
    assert (document["low"], document["high"]) == plan.interval()
    assert [each["name"] for each in document["classes"]] == ["a", "b"]
    assert estimate().interval() == (0.0, 0.0)
