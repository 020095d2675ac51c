"""Tests of what more searching is expected to bring: exact on a curve that falls as assumed, never below zero."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from tapestry.optimizer import Progress
from tapestry.optimizer.run.improvement import LEAST_ROUNDS, expected_improvement
from tapestry.optimizer.run.plan import BoundScope, LowerBound

SCOPE = BoundScope(1, (), (), (), ())


def history(best: Callable[[float], Sequence[float]], rounds: int, began_s: float = 30.0) -> list[Progress]:
    """Return rounds of a second each, after a preparation; `best` are the least values by the seconds of the rounds."""
    return [Progress("searching", began_s + t, 100 * t, 1, 0.5, tuple(best(t))) for t in range(1, rounds + 1)]


def test_a_curve_that_falls_as_assumed_goes_on_so() -> None:
    def best(t: float) -> list[float]:
        return [float(np.exp(2 + 1 / t)), 5.0]

    (fall, nothing) = expected_improvement(history(best, 1000), 60)
    assert fall == pytest.approx(1 - best(1060)[0] / best(1000)[0], rel=0.01)
    assert nothing == 0.0


def test_a_late_gain_counts_for_more_than_an_early_one() -> None:
    early, late = (
        expected_improvement(history(lambda t, at=at: [1.0 if t >= at else 1.1], 100), 60)[0]  # type: ignore[misc]
        for at in (10, 90)
    )
    assert 0 < early < late / 50
    assert late < 1 - 1 / 1.1


def test_longer_searching_brings_more_but_no_more_than_is_left() -> None:
    found = [expected_improvement(history(lambda t: [1 + 1 / t], 50), s)[0] for s in (0, 1, 60, 1e9)]
    assert found[0] == 0.0
    assert found == sorted(found)
    assert found[-1] < 0.03
    proven = LowerBound(0.999, 1.0, SCOPE)
    assert expected_improvement(history(lambda t: [1 + 1 / t], 50), 1e9, [proven]) == pytest.approx((0.001,))
    assert expected_improvement(history(lambda t: [1 + 1 / t], 50), 1e9, [None]) == (found[-1],)


def test_values_of_zero_and_rounds_without_plans_say_nothing() -> None:
    assert expected_improvement(history(lambda t: [0.0], 50)) == (0.0,)
    assert expected_improvement(history(lambda t: [], 50)) == ()
    assert expected_improvement(history(lambda t: [1 / t], LEAST_ROUNDS - 1)) == ()
    assert len(expected_improvement(history(lambda t: [1 / t], LEAST_ROUNDS))) == 1


def test_a_best_that_a_tighter_bound_took_away_is_no_loss() -> None:
    assert expected_improvement(history(lambda t: [1.0 if t < 20 else 2.0], 50)) == (0.0,)
