"""Tests of the box of several fronts, and of the share that a front dominates."""

import numpy as np
import pytest

from benchmarks.contenders.fronts import BEYOND_NADIR, Box, box_of, thinned


def test_a_box_reaches_from_the_best_values_beyond_the_nadir() -> None:
    box = box_of([np.array([[1.0, 8.0], [100.0, 100.0]]), np.zeros((0, 2)), np.array([[4.0, 2.0]])])
    assert box is not None
    assert box.least.tolist() == [1.0, 2.0]
    assert box.most.tolist() == pytest.approx([4.0 * BEYOND_NADIR, 8.0 * BEYOND_NADIR])


def test_a_share_is_measured_on_logarithmic_axes() -> None:
    box = Box(np.array([1.0, 1.0]), np.array([100.0, 100.0]))
    assert box.share(np.array([[10.0, 10.0]])) == pytest.approx(0.25)
    assert box.share(np.array([[1.0, 1.0]])) == 1.0
    assert box.share(np.array([[100.0, 1.0]])) == 0.0
    assert box.share(np.zeros((0, 2))) == 0.0


def test_zero_counts_as_half_of_the_least_value_above_it() -> None:
    front = np.array([[1.0, 0.0], [0.5, 4.0]])
    box = box_of([front])
    assert box is not None and box.least.tolist() == [0.5, 2.0]
    assert 0.0 < box.share(front) < 1.0


def test_without_plans_there_is_no_box() -> None:
    assert box_of([]) is None and box_of([np.zeros((0, 0))]) is None


def test_a_front_is_thinned_to_the_plans_that_dominate_most() -> None:
    rng = np.random.default_rng(0)
    angles = np.sort(rng.random(500)) * np.pi / 2
    front = np.stack([2.0 - np.cos(angles), 2.0 - np.sin(angles)], axis=1)
    kept = thinned(front, 20)
    box = box_of([front])
    assert box is not None and len(kept) == 20
    assert box.share(kept) > 0.9 * box.share(front)
