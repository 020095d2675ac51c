"""Tests of index spaces and the rows of their projections."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.signature import IndexDim, Row, Signature, projection, rows_of
from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZRange

DIMS = (IndexDim("m", 4), IndexDim("n", 6), IndexDim("k", 3, "sum"))


@st.composite
def separable_rows(draw: st.DrawFn) -> tuple[Row, ...]:
    rows = []
    for _ in range(draw(st.integers(0, 4))):
        dim = draw(st.integers(-1, 2))
        stride = draw(st.integers(-3, 3).filter(bool)) if dim >= 0 else 0
        rows.append(Row(dim, stride, draw(st.integers(-5, 5)), draw(st.integers(0, 4))))
    return tuple(rows)


@given(separable_rows())
def test_rows_and_projections_are_two_forms_of_one_thing(rows: tuple[Row, ...]) -> None:
    assert rows_of(projection(rows, 3)) == rows


def test_a_row_in_which_two_dimensions_meet_is_not_separable() -> None:
    window = IndexProjection(ZAffineMap(((2, 1), (0, 0)), (-1, 7)), (3, 2))
    assert rows_of(window) == (None, Row(-1, 0, 7, 2))


def test_given_a_contraction_then_its_parts_project_to_slices() -> None:
    left = projection([Row(0, 1, 0, 1), Row(2, 1, 0, 1)], 3)
    signature = Signature(DIMS, (left,), (projection([Row(0, 1, 0, 1), Row(1, 1, 0, 1)], 3),))
    part = ZRange((2, 0, 1), (4, 6, 2))
    assert signature.index_range == ZRange((0, 0, 0), (4, 6, 3))
    assert signature.inputs[0].project(part) == ZRange((2, 1), (4, 2))
    assert signature.outputs[0].project(part) == ZRange((2, 0), (4, 6))


def test_dimensions_are_found_by_name() -> None:
    signature = Signature(DIMS, (), ())
    assert signature.position("k") == 2
    with pytest.raises(KeyError, match=r"no index dimension 'z' among \['m', 'n', 'k'\]"):
        signature.position("z")


@pytest.mark.parametrize(
    ("dims", "inputs", "message"),
    [
        ((IndexDim("m", 1), IndexDim("m", 2)), (), "different names"),
        ((IndexDim("m", 1, "mean"),), (), "unknown kind 'mean'"),
        ((IndexDim("m", 1),), (projection([Row(0, 1, 0, 1)], 2),), "needs 1 coefficients"),
    ],
)
def test_impossible_signatures_are_refused(
    dims: tuple[IndexDim, ...], inputs: tuple[IndexProjection, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Signature(dims, inputs, ())
