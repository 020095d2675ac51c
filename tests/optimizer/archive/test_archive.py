"""Tests of the epsilon archive: its guarantees, checked against a record of all offered points."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.optimizer.archive.fronts import merge
from tests.optimizer.archive.archives import (
    EPSILON,
    boxes,
    dominates,
    empty,
    insert_points,
    insert_violating,
    members,
    random_points,
)

SEEDS = st.integers(0, 2**32 - 1)
OBJECTIVES = st.integers(1, 4)


@given(SEEDS, OBJECTIVES)
def test_members_are_mutually_nondominated_and_were_offered(seed: int, objectives: int) -> None:
    points = random_points(np.random.default_rng(seed), 120, objectives)
    archive = empty(objectives)

    entered = insert_points(archive, points)

    kept = members(archive)
    numbers = archive.genes[: len(kept), 0]
    assert all(entered[k] for k in numbers)
    assert kept.tolist() == points[numbers].tolist(), "genes stay with their values"
    assert archive.digest[: len(kept)].tolist() == numbers.tolist()
    for a in kept:
        assert not any(dominates(b, a) for b in kept)
    assert len({tuple(a) for a in kept}) == len(kept)


@given(SEEDS, OBJECTIVES)
def test_every_inserted_point_is_covered_up_to_epsilon(seed: int, objectives: int) -> None:
    points = random_points(np.random.default_rng(seed), 120, objectives)
    archive = empty(objectives)

    insert_points(archive, points)

    kept = boxes(members(archive))
    for box in boxes(points):
        assert (kept <= box).all(axis=1).any()


@given(SEEDS, OBJECTIVES)
def test_the_best_of_every_objective_is_kept_exactly(seed: int, objectives: int) -> None:
    points = random_points(np.random.default_rng(seed), 120, objectives)
    archive = empty(objectives)

    for start in range(0, len(points), 10):
        insert_points(archive, points[start : start + 10])
        best = points[: start + 10].min(axis=0)
        assert members(archive).min(axis=0).tolist() == best.tolist()


@given(SEEDS)
def test_extremes_stay_when_the_archive_is_full(seed: int) -> None:
    points = random_points(np.random.default_rng(seed), 200, 3)
    archive = empty(3, capacity=8)

    insert_points(archive, points, epsilon=1e-6)

    kept = members(archive)
    assert len(kept) <= 8
    assert kept.min(axis=0).tolist() == points.min(axis=0).tolist()
    for a in kept:
        assert not any(dominates(b, a) for b in kept)


@given(SEEDS, OBJECTIVES)
def test_one_plan_per_box_besides_extremes(seed: int, objectives: int) -> None:
    """Check that the size of an archive is bounded by the grid, not by the number of offered points."""
    points = random_points(np.random.default_rng(seed), 300, objectives)
    archive = empty(objectives)

    insert_points(archive, points, epsilon=1.0)

    kept = members(archive)
    in_shared_boxes = len(kept) - len({tuple(b) for b in boxes(kept, 1.0)})
    assert in_shared_boxes <= objectives


@given(SEEDS)
def test_plans_that_are_all_best_at_something_share_boxes_too(seed: int) -> None:
    """Check plans that move nothing or waste nothing: they are many, and being one of them is no reason to stay."""
    points = random_points(np.random.default_rng(seed), 300, 3)
    points[:, 2] = 0.0
    archive = empty(3)

    insert_points(archive, points[np.argsort(points[:, 0])], epsilon=1.0)

    kept = members(archive)
    assert len(kept) - len({tuple(b) for b in boxes(kept, 1.0)}) <= 3
    assert kept.min(axis=0).tolist() == points.min(axis=0).tolist()


@given(SEEDS, OBJECTIVES)
def test_order_matters_up_to_epsilon_only(seed: int, objectives: int) -> None:
    rng = np.random.default_rng(seed)
    points = random_points(rng, 120, objectives)
    one, other = empty(objectives), empty(objectives)

    insert_points(one, points)
    insert_points(other, points[rng.permutation(len(points))])

    for a, b in ((one, other), (other, one)):
        for value in members(a):
            nearest = (members(b) / np.where(value > 0, value, np.inf)).max(axis=1).min()
            assert nearest <= 1 + EPSILON + 1e-9


@given(SEEDS)
def test_merging_is_offering_everything(seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = random_points(rng, 160, 3)
    target, source, both = empty(3), empty(3), empty(3)
    insert_points(target, points[:80])
    insert_points(source, points[80:])
    before = members(target)
    insert_points(both, np.concatenate([before, members(source)]))

    entered = merge(target, source, np.full(3, EPSILON))

    assert members(target).tolist() == members(both).tolist()
    assert (entered == 0) == (members(target).tolist() == before.tolist())
    assert merge(target, target, np.full(3, EPSILON)) == 0, "nothing in it is new to itself"


def test_a_better_plan_in_the_same_box_takes_its_place() -> None:
    archive = empty(2)
    assert insert_points(archive, np.array([[10.0, 1.0], [1.0, 10.0], [5.0, 5.0]])) == [True] * 3

    # Within a box only dominance helps, and a box that is no better stays out.
    assert insert_points(archive, np.array([[4.99, 5.001], [5.0, 5.0], [6.0, 5.5], [4.99, 4.99]])) == [
        False,
        False,
        False,
        True,
    ]

    assert sorted(members(archive).tolist()) == [[1.0, 10.0], [4.99, 4.99], [10.0, 1.0]]


def test_a_new_extreme_enters_even_into_a_dominated_box() -> None:
    archive = empty(2)
    insert_points(archive, np.array([[1.0, 5.0]]))
    assert insert_points(archive, np.array([[0.999, 50.0]])) == [True]
    assert len(members(archive)) == 2


def test_the_pool_keeps_the_smallest_violations_once() -> None:
    archive = empty(1, pool=3)
    assert [insert_violating(archive, v, k) for k, v in enumerate([0.5, 0.1, 0.9])] == [True] * 3
    assert not insert_violating(archive, 0.01, 1), "known by its hash"
    assert not insert_violating(archive, 0.9, 7), "no better than the worst"
    assert insert_violating(archive, 0.3, 8)
    assert sorted(archive.pool_violation.tolist()) == [0.1, 0.3, 0.5]
    assert sorted(archive.pool_genes[:, 0].tolist()) == [0, 1, 8]
    assert archive.size.tolist() == [0, 3]


@pytest.mark.parametrize("value", [0.0, 1e-12, 1.0, 3.7e15])
def test_any_magnitude_has_a_box(value: float) -> None:
    archive = empty(2)
    assert insert_points(archive, np.array([[value, 1.0]])) == [True]
    assert insert_points(archive, np.array([[value, 1.0]])) == [False]
    assert insert_points(archive, np.array([[value * 2 + 1e-9, 0.5]])) == [True]
