"""Tests of the front shown while a search runs: a point is lost only to a better one, and the number stays readable."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import hypervolume, select_subset
from tapestry.optimizer.archive.publishing import publish

NOTHING = np.zeros((0, 2))


@st.composite
def searches(draw: st.DrawFn) -> tuple[list[np.ndarray], int]:
    """Draw successive fronts of a search, with many ties and zeros, and a limit."""
    objectives = draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    steps = draw(st.integers(1, 6))
    coarse = draw(st.booleans())
    fronts = []
    for k in range(steps):
        points = rng.integers(0, 6, (25, objectives)) if coarse else rng.uniform(0, 1, (25, objectives))
        points = points.astype(float) * (1.0 - 0.1 * k)
        fronts.append(points[nondominated(points)])
    return fronts, draw(st.integers(1, 12))


def no_worse(a: np.ndarray, b: np.ndarray) -> bool:
    return bool((a <= b).all())


@given(searches())
def test_whatever_was_shown_is_covered_by_what_is_shown(search: tuple[list[np.ndarray], int]) -> None:
    fronts, limit = search
    shown = np.zeros((0, fronts[0].shape[1]))
    ever: list[np.ndarray] = []
    for k, front in enumerate(fronts):
        entering, leaving = publish(shown, front, limit, k == len(fronts) - 1)

        assert len(set(entering.tolist())) == len(entering)
        assert not any(no_worse(old, front[i]) for old in shown for i in entering), (
            "nothing twice, nothing worse"
        )
        for gone in leaving:
            assert any(no_worse(front[i], shown[gone]) for i in entering)
        shown = np.concatenate([np.delete(shown, leaving, axis=0), front[entering]])
        ever += list(front[entering])
        assert nondominated(shown).all(), "mutually non-dominated"
        assert all(any(no_worse(now, then) for now in shown) for then in ever)
    best = np.minimum.reduce([front.min(axis=0) for front in [*fronts[-1:], np.array(ever)]])
    assert shown.min(axis=0).tolist() == best.tolist(), "at the end the best of every objective is there"


@given(searches())
def test_what_a_candidate_dominates_is_replaced(search: tuple[list[np.ndarray], int]) -> None:
    fronts, limit = search
    shown = np.zeros((0, fronts[0].shape[1]))
    for front in fronts:
        entering, leaving = publish(shown, front, limit, False)
        better = [
            k for k, old in enumerate(shown) if any(no_worse(new, old) and (new < old).any() for new in front)
        ]
        assert leaving.tolist() == better
        shown = np.concatenate([np.delete(shown, leaving, axis=0), front[entering]])


def test_places_are_filled_like_a_thinned_front() -> None:
    rng = np.random.default_rng(3)
    points = np.exp(rng.uniform(0, 5, (400, 3)))
    front = points[nondominated(points)]
    entering, leaving = publish(np.zeros((0, 3)), front, 8, False)
    assert sorted(entering.tolist()) == sorted(select_subset(front, 8))
    assert leaving.tolist() == []


def test_a_limit_holds_newcomers_back_but_not_what_is_better_or_much_better_at_something() -> None:
    shown = np.array([[1.0, 10.0], [10.0, 1.0]])
    between, slightly, clearly, instead = [5.0, 5.0], [0.996, 20.0], [0.99, 21.0], [9.0, 0.9995]
    for candidates, is_last, expected in [
        ([between], False, ([], [])),
        ([between], True, ([], [])),
        ([slightly], False, ([], [])),
        ([slightly], True, ([0], [])),
        ([between, clearly], False, ([1], [])),
        ([between, instead], False, ([1], [1])),
        ([[1.0, 10.0], [10.0, 1.5]], True, ([], [])),
    ]:
        entering, leaving = publish(shown, np.array(candidates), 2, is_last)
        assert (entering.tolist(), leaving.tolist()) == expected, candidates


def test_of_many_that_replace_the_same_few_enter() -> None:
    shown = np.array([[1.0, 10.0], [5.0, 5.0], [10.0, 1.0]])
    steps = np.linspace(4.0, 4.9, 10)
    points = np.column_stack([steps, 8.9 - steps])
    entering, leaving = publish(shown, points, 3, False)
    assert leaving.tolist() == [1]
    assert len(entering) == 1
    entering, leaving = publish(shown, points, 5, False)
    assert len(entering) == 3, "one to replace, two on free places"


def test_nothing_comes_of_nothing() -> None:
    for shown in (NOTHING, np.array([[1.0, 1.0]])):
        entering, leaving = publish(shown, NOTHING, 4, True)
        assert (entering.tolist(), leaving.tolist()) == ([], [])


@pytest.mark.slow
def test_a_front_shown_as_it_grows_is_about_as_good_as_one_chosen_at_the_end() -> None:
    """Check a front that moves towards the origin in steps, with a few points of it found in each."""
    rng = np.random.default_rng(7)
    found, shown, limit = np.zeros((0, 3)), np.zeros((0, 3)), 24
    for k in range(30):
        points = np.exp(rng.uniform(0, 3, (150, 3)))
        points *= np.prod(points, axis=1, keepdims=True) ** (-1 / 3) * (1.0 + 3.0 / (k + 1))
        found = np.concatenate([found, points])
        found = found[nondominated(found)]
        entering, leaving = publish(shown, found, limit, k == 29)
        shown = np.concatenate([np.delete(shown, leaving, axis=0), found[entering]])
    reference = found.max(axis=0) * 1.1
    assert len(shown) <= 1.5 * limit
    assert hypervolume(shown, reference) > 0.95 * hypervolume(found[select_subset(found, limit)], reference)
