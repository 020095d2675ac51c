"""Tests of proofs on boxes: a gap and an overlap do not cancel, replicas are no overlap."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.partition import (
    box_ids,
    constant_in_groups,
    group_numbers,
    once_in_groups,
    partition_fault,
    projected,
)
from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZRange


def rows(*intervals: tuple[int, int]) -> np.ndarray:
    return np.array([[i] for i in intervals], dtype=np.int64)


@pytest.mark.parametrize(
    ("boxes", "fault"),
    [
        (rows((0, 4), (4, 8)), None),
        (rows((4, 8), (0, 4), (0, 4), (8, 8)), None),
        (rows((0, 4), (5, 8)), "dimension 0: [0, 4) and [5, 8) leave a gap"),
        (rows((0, 5), (4, 8)), "dimension 0: [0, 5) and [4, 8) overlap"),
        (rows((0, 3), (2, 5), (6, 8)), "dimension 0: [0, 3) and [2, 5) overlap"),
        (rows((0, 4), (4, 7)), "dimension 0 reaches [0, 7) instead of [0, 8)"),
        (rows((0, 4), (4, 8), (2, 6)), "dimension 0: [0, 4) and [2, 6) overlap"),
        (rows((3, 3)), "no device has any of it"),
    ],
)
def test_intervals(boxes: np.ndarray, fault: str | None) -> None:
    assert partition_fault(boxes, (0,), (8,)) == fault


def test_sizes_that_add_up_prove_nothing() -> None:
    """Check two boxes of half the size each, overlapping at one corner and leaving another free."""
    boxes = np.array([[[0, 2], [0, 2]], [[0, 2], [0, 2]], [[2, 4], [2, 4]], [[2, 4], [0, 2]]])
    assert partition_fault(boxes, (0, 0), (4, 4)) == "3 of the 4 combinations of intervals are there"
    boxes[1, 1] = (2, 4)
    assert partition_fault(boxes, (0, 0), (4, 4)) is None


def test_rank_zero_and_empty_ranges() -> None:
    assert partition_fault(np.zeros((4, 0, 2), np.int64), (), ()) is None
    assert partition_fault(rows((0, 0), (0, 0)), (0,), (0,)) is None
    assert partition_fault(rows((0, 1)), (0,), (0,)) == "1 boxes for a range without points"


@given(st.data())
def test_the_proof_agrees_with_counting_every_point(data: st.DataObject) -> None:
    """Check grids with possible damage: no fault exactly when every point lies in one distinct box."""
    cuts = [sorted({0, 5, *data.draw(st.lists(st.integers(1, 4), max_size=2))}) for _ in range(2)]
    boxes = [
        [[a, b], [c, d]]
        for a, b in zip(cuts[0], cuts[0][1:], strict=False)
        for c, d in zip(cuts[1], cuts[1][1:], strict=False)
    ]
    if data.draw(st.booleans()):
        k, dim, end = (data.draw(st.integers(0, n)) for n in (len(boxes) - 1, 1, 1))
        boxes[k][dim][end] += data.draw(st.sampled_from([-1, 1]))
    seen = np.zeros((7, 7), int)
    for (a, b), (c, d) in {tuple(map(tuple, box)) for box in boxes}:
        if min(a, c) >= 0:
            seen[a:b, c:d] += 1
        else:
            seen[:] = 2
    exact = (seen[:5, :5] == 1).all() and seen.sum() == 25
    assert (partition_fault(np.array(boxes), (0, 0), (5, 5)) is None) == exact


def test_a_projection_of_mixed_signs_bounds_exactly() -> None:
    rows = IndexProjection(ZAffineMap(((1, -1), (2, 0)), (3, -1)), (1, 3))
    parts = np.array([[[0, 2], [0, 4]], [[2, 4], [0, 4]], [[4, 4], [0, 4]]])
    made = projected(rows, parts, (6, 8))
    for part, box in zip(parts[:2], made, strict=False):
        exact = rows.project(ZRange(tuple(part[:, 0].tolist()), tuple(part[:, 1].tolist())))
        clipped = exact.intersection(ZRange.of_shape((6, 8)))
        assert [tuple(b) for b in box.tolist()] == list(zip(clipped.start, clipped.end, strict=True))
    assert (made[2, :, 0] == made[2, :, 1]).all()


def test_groups() -> None:
    mesh_shape = MeshShape.of(node=2, gpu=2)
    groups = group_numbers(mesh_shape, ("gpu.0",))
    assert groups.tolist() == [0, 0, 1, 1]
    assert constant_in_groups(np.array([7, 7, 5, 5]), groups)
    assert not constant_in_groups(np.array([7, 5, 5, 5]), groups)
    assert once_in_groups(np.array([0, 1, 1, 0]), 2, groups)
    assert not once_in_groups(np.array([0, 0, 1, 0]), 2, groups)
    assert once_in_groups(np.array([0, -1, -1, 0]), 1, groups)


def test_equal_boxes_have_equal_numbers() -> None:
    ids, distinct = box_ids(rows((0, 2), (2, 4), (0, 2), (4, 4)))
    assert ids[0] == ids[2] != ids[1]
    assert ids[3] == -1
    assert sorted(distinct[:, 0].tolist()) == [[0, 2], [2, 4]]
