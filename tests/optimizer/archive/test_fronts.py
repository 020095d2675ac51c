"""Tests of the pure functions on fronts, against brute-force definitions. Lower is better everywhere."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.optimizer.archive.fronts import (
    hypervolume,
    nondominated,
    select_subset,
    set_parent_weights,
    spread_points,
)
from tests.optimizer.archive.archives import dominates, empty, insert_points

SEEDS = st.integers(0, 2**32 - 1)


def brute_volume(points: np.ndarray, reference: np.ndarray) -> float:
    """Compute the dominated share of the reference box, summed over the cells of the grid that the points span."""
    edges = [np.unique([0.0, *points[:, j][points[:, j] < r], r]) for j, r in enumerate(reference)]
    total = 0.0
    for corner in product(*(range(len(e) - 1) for e in edges)):
        low = np.array([e[k] for e, k in zip(edges, corner, strict=True)])
        high = np.array([e[k + 1] for e, k in zip(edges, corner, strict=True)])
        if (points <= low).all(axis=1).any():
            total += float(np.prod(high - low))
    return total / float(np.prod(reference))


def test_hypervolume_of_two_boxes_by_hand() -> None:
    # Of a 10 x 10 box, (2, 6) dominates 8 x 4, (5, 1) 5 x 9, both 5 x 4.
    points = np.array([[2.0, 6.0], [5.0, 1.0]])
    assert hypervolume(points, np.array([10.0, 10.0])) == pytest.approx((32 + 45 - 20) / 100)
    assert hypervolume(points, np.array([5.0, 5.0])) == 0.0, "on the border of the box is outside"
    assert hypervolume(np.zeros((0, 2)), np.array([1.0, 1.0])) == 0.0
    assert hypervolume(np.zeros((1, 3)), np.ones(3)) == 1.0


@given(SEEDS, st.integers(2, 4))
def test_hypervolume_is_the_dominated_share(seed: int, objectives: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform(0, 12, (5, objectives))
    reference = np.full(objectives, 10.0)
    assert hypervolume(points, reference) == pytest.approx(brute_volume(points, reference), rel=1e-9)


@given(SEEDS)
def test_more_points_never_dominate_less(seed: int) -> None:
    points = np.random.default_rng(seed).uniform(0, 1, (12, 4))
    volumes = [hypervolume(points[:k], np.ones(4)) for k in range(1, 13)]
    assert volumes == sorted(volumes)


def test_sampling_in_many_dimensions_is_near_and_repeatable() -> None:
    point = np.full((1, 6), 0.1)
    found = hypervolume(point, np.ones(6))
    assert found == pytest.approx(0.9**6, rel=0.02)
    assert found == hypervolume(point, np.ones(6))


@given(SEEDS, st.integers(1, 4))
def test_nondominated_by_definition(seed: int, objectives: int) -> None:
    points = np.random.default_rng(seed).integers(0, 5, (25, objectives)).astype(float)
    expected = [
        not any(dominates(b, a) for b in points) and not any((b == a).all() for b in points[:k])
        for k, a in enumerate(points)
    ]
    assert nondominated(points).tolist() == expected


def test_nothing_has_no_front() -> None:
    assert nondominated(np.zeros((0, 3))).tolist() == []


@given(SEEDS)
def test_thinning_keeps_extremes_and_order(seed: int) -> None:
    points = np.exp(np.random.default_rng(seed).uniform(0, 5, (200, 3)))
    front = np.flatnonzero(nondominated(points))
    limit = max(3, len(front) // 2)

    rows = select_subset(points, limit)

    assert len(rows) == min(limit, len(front)) == len(set(rows))
    assert set(rows) <= set(front.tolist())
    assert points[rows].min(axis=0).tolist() == points.min(axis=0).tolist()
    assert points[rows, 0].tolist() == sorted(points[rows, 0])
    assert select_subset(points, 1000) == sorted(front.tolist(), key=lambda r: tuple(points[r]))


def test_thinning_keeps_the_corner_that_dominates_most() -> None:
    points = np.array(
        [[1.0, 100.0], *([1.01 + 0.001 * k, 99.0 - k] for k in range(5)), [10.0, 10.0], [100.0, 1.0]]
    )
    assert select_subset(points, 3) == [0, 6, 7]


def test_points_are_spread_evenly() -> None:
    points = spread_points(4096, 2)
    counts, *_ = np.histogram2d(*points.T, bins=8, range=[[0, 1], [0, 1]])
    assert counts.min() > 56
    assert counts.max() < 72


def test_extremes_and_isolated_plans_become_parents_more_often() -> None:
    archive = empty(2)
    points = np.array([[1.0, 1000.0], [10.0, 100.0], [11.0, 90.0], [12.0, 80.0], [13.0, 75.0], [1000.0, 1.0]])
    insert_points(archive, points, epsilon=0.001)

    set_parent_weights(archive)

    weight = archive.weight[:6]
    assert weight[0] == weight[5] == 4.0, "both ends"
    assert weight[1] > weight[2], "beside a gap"
    assert weight[2:4].max() < 1.5
    assert (weight >= 0.25).all()
    set_parent_weights(empty(2))
