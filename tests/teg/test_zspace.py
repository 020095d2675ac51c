"""Tests of boxes and projections against brute force over the set of points."""

from itertools import product

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZPoint, ZRange

small = st.integers(-4, 4)


@st.composite
def boxes(draw: st.DrawFn, rank: int | None = None) -> ZRange:
    rank = draw(st.integers(0, 3)) if rank is None else rank
    start = draw(st.tuples(*[small] * rank))
    shape = draw(st.tuples(*[st.integers(0, 3)] * rank))
    return ZRange(start, tuple(s + n for s, n in zip(start, shape, strict=True)))


@st.composite
def box_pairs(draw: st.DrawFn) -> tuple[ZRange, ZRange]:
    rank = draw(st.integers(0, 3))
    return draw(boxes(rank)), draw(boxes(rank))


@st.composite
def projections(draw: st.DrawFn) -> tuple[IndexProjection, ZRange]:
    """Draw a projection with coefficients of mixed signs and an index range for it."""
    index = draw(boxes())
    rank = draw(st.integers(0, 3))
    rows = draw(st.tuples(*[st.tuples(*[st.integers(-3, 3)] * index.rank)] * rank))
    offset = draw(st.tuples(*[small] * rank))
    shape = draw(st.tuples(*[st.integers(0, 4)] * rank))
    return IndexProjection(ZAffineMap(rows, offset), shape), index


def bounding_box(points: set[ZPoint]) -> ZRange:
    columns = list(zip(*points, strict=True))
    return ZRange(tuple(map(min, columns)), tuple(max(c) + 1 for c in columns))


@given(boxes())
def test_a_range_is_the_set_of_its_points(box: ZRange) -> None:
    points = list(box.points())
    assert len(points) == box.size
    assert points == sorted(set(points))
    assert box.is_empty == (not points)
    assert all(box.contains_point(p) for p in points)


@given(boxes(2), st.tuples(small, small))
def test_a_point_is_inside_dimension_by_dimension(box: ZRange, point: ZPoint) -> None:
    assert box.contains_point(point) == (point in set(box.points()))


def test_what_is_no_point_of_a_range_is_refused_with_what_was_expected() -> None:
    box = ZRange((0, 2), (3, 5))
    for point, found in [((1,), r"\(1,\) has rank 1"), ((1, 2, 3), r"\(1, 2, 3\) has rank 3")]:
        expected = rf"^{found}, but the range zr\[0:3, 2:5\] has rank 2: give 2 coordinates"
        with pytest.raises(ValueError, match=expected):
            box.contains_point(point)
    for no_point in (None, 1, "ab", (None, 1), (0.5, 2.0)):
        with pytest.raises(
            TypeError, match=r"a point of the range zr\[.*\] is a tuple of 2 integers, .* not"
        ):
            box.contains_point(no_point)  # type: ignore[arg-type]
    assert ZRange((), ()).contains_point(())
    with pytest.raises(ValueError, match="equal rank"):
        box.contains(ZRange((0,), (1,)))


@given(box_pairs())
def test_intersection_is_that_of_the_points(pair: tuple[ZRange, ZRange]) -> None:
    a, b = pair
    assert set(a.intersection(b).points()) == set(a.points()) & set(b.points())
    assert a.intersection(b).size == b.intersection(a).size


@given(box_pairs())
def test_a_range_contains_the_subsets_of_its_points(pair: tuple[ZRange, ZRange]) -> None:
    a, b = pair
    assume(not b.is_empty)
    assert a.contains(b) == (set(b.points()) <= set(a.points()))


@given(box_pairs())
def test_the_bounding_box_is_the_smallest_around_both(pair: tuple[ZRange, ZRange]) -> None:
    a, b = pair
    assume(not a.is_empty and not b.is_empty and a.rank > 0)
    assert a.bounding(b) == bounding_box({*a.points(), *b.points()})


@given(boxes(3), st.tuples(small, small, small))
def test_translation_moves_every_point(box: ZRange, offset: ZPoint) -> None:
    moved = {tuple(p + o for p, o in zip(point, offset, strict=True)) for point in box.points()}
    assert set(box.translate(offset).points()) == moved


def test_rank_zero_has_one_empty_point() -> None:
    scalar = ZRange.of_shape(())
    assert (scalar.size, scalar.is_empty, list(scalar.points())) == (1, False, [()])
    assert str(scalar) == "zr[]"


def test_a_range_prints_as_slices() -> None:
    assert str(ZRange((-1, 0), (2, 3))) == "zr[-1:2, 0:3]"


@pytest.mark.parametrize(("start", "end"), [((0,), (1, 2)), ((2,), (1,)), ((0, 3), (1, 2))])
def test_impossible_ranges_are_refused(start: ZPoint, end: ZPoint) -> None:
    with pytest.raises(ValueError, match="range"):
        ZRange(start, end)


@given(projections())
def test_a_projected_range_is_the_bounding_box_of_all_projected_points(
    case: tuple[IndexProjection, ZRange],
) -> None:
    projection, index = case
    boxes_by_point = [
        ZRange.of_shape(projection.shape).translate(projection.start.apply(p)) for p in index.points()
    ]
    reached = {point for box in boxes_by_point for point in box.points()}
    box = projection.project(index)
    if box.rank == 0:
        assert box.size == 1  # Z^0 has no empty box: even an empty index range reads a scalar
    elif not reached:
        assert box.is_empty
    else:
        assert box == bounding_box(reached)


def test_mixed_signs_need_more_than_two_corners() -> None:
    # Row (2, -1): the corners (1, 1) and (3, 2) alone would give [6, 11).
    projection = IndexProjection(ZAffineMap(((2, -1),), (5,)), (2,))
    assert projection.project(ZRange((1, 1), (4, 3))) == ZRange((5,), (12,))


@given(st.tuples(small, small))
def test_an_affine_map_is_matrix_times_point_plus_offset(point: ZPoint) -> None:
    matrix, offset = ((1, -2), (0, 3), (1, 1)), (4, 5, 6)
    x, y = point
    assert ZAffineMap(matrix, offset).apply(point) == (x - 2 * y + 4, 3 * y + 5, x + y + 6)


@pytest.mark.parametrize(
    ("matrix", "offset"),
    [(((1, 0), (0, 2)), (4, 5, 6)), (((1, 0), (0,)), (0, 0))],
)
def test_a_map_needs_a_rectangular_matrix_and_one_offset_per_row(
    matrix: tuple[ZPoint, ...], offset: ZPoint
) -> None:
    with pytest.raises(ValueError, match="affine map"):
        ZAffineMap(matrix, offset)


@pytest.mark.parametrize("shape", [(), (1, 2), (-1,)])
def test_a_projection_needs_one_extent_per_row(shape: ZPoint) -> None:
    with pytest.raises(ValueError, match="1 extents from 0 up"):
        IndexProjection(ZAffineMap(((1,),), (0,)), shape)


def test_a_point_of_another_rank_is_refused() -> None:
    with pytest.raises(ValueError, match=r"zip\(\)"):
        ZAffineMap(((1, 0),), (0,)).apply((1, 1, 1))


@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(1, 5))
def test_a_strided_window_is_a_projection(start: int, count: int, stride: int, extent: int) -> None:
    windows = IndexProjection(ZAffineMap(((stride,),), (-1,)), (extent,))
    read = {x for i, k in product(range(start, start + count), range(extent)) for x in [stride * i - 1 + k]}
    box = windows.project(ZRange((start,), (start + count,)))
    assert (box.start[0], box.end[0]) == ((min(read), max(read) + 1) if read else (box.start[0],) * 2)


def test_an_empty_range_has_a_place() -> None:
    box = ZRange.of_shape((2, 3))
    assert box.contains(ZRange((2, 3), (2, 3)))
    assert not box.contains(ZRange((-1, 0), (-1, 0)))


def test_ranges_meet_touch_or_are_apart() -> None:
    box = ZRange.of_shape((2, 3))
    assert box.meeting(ZRange((1, -5), (9, 2))) == ZRange((1, 0), (2, 2))
    assert box.meeting(ZRange((2, 0), (4, 3))) == ZRange((2, 0), (2, 3))
    assert box.meeting(ZRange((-5, -5), (-1, -1))) is None


@given(boxes(), st.integers(-2, 1), st.integers(1, 4))
def test_chunks_tile_their_range_in_order(box: ZRange, axis: int, size: int) -> None:
    assume(-box.rank <= axis < box.rank and not box.is_empty)
    chunks = box.split(axis, size)
    assert sorted(p for c in chunks for p in c.points()) == list(box.points())
    assert {c.shape[axis] for c in chunks[:-1]} <= {size}
    assert box.split(axis, [c.shape[axis] for c in chunks]) == chunks


@given(boxes())
def test_a_printed_range_is_read_back(box: ZRange) -> None:
    assert ZRange.parse(str(box)) == box
    assert ZRange.build(box.start, shape=box.shape) == box == ZRange.build(box.start, box.end)


def test_what_is_no_range() -> None:
    for text in ["zr[1, 2]", "abc", "zr[1:2,]", "zr[a:b]"]:
        with pytest.raises(ValueError, match="is no range"):
            ZRange.parse(text)
    with pytest.raises(ValueError, match="one of the two"):
        ZRange.build((0,), (1,), (1,))
    with pytest.raises(ValueError, match="sum up to 3"):
        ZRange.of_shape((3,)).split(0, [1, 1])
    with pytest.raises(ValueError, match="at least one range"):
        ZRange.around([])


def test_an_empty_range_is_projected_to_an_empty_box_at_its_start() -> None:
    projection = IndexProjection(ZAffineMap(((1, -1),), (0,)), (1,))
    assert projection.project(ZRange((3, 3), (3, 5))) == ZRange((0,), (0,))
