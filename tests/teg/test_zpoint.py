"""Tests of points of discrete spaces: dominance, added and reordered dimensions, names."""

import pytest

from tapestry.teg.zpoint import DimensionMap, dominance, permuted, resolved_axis, with_dims


def test_points_are_ordered_in_every_coordinate_or_not_at_all() -> None:
    assert [dominance((0, 0), p) for p in [(0, 0), (1, 0), (-1, 0)]] == ["equal", "less", "greater"]
    assert dominance((0, 1), (1, 0)) == "incomparable"
    with pytest.raises(ValueError, match=r"points of equal rank .* \(0,\) of rank 1 and \(0, 1\) of rank 2"):
        dominance((0,), (0, 1))


def test_zeros_are_put_in_before_an_axis() -> None:
    assert with_dims((1, 2, 3), 0, 2) == (0, 0, 1, 2, 3)
    assert with_dims((1, 2, 3), -2, 1) == (1, 2, 0, 3)
    assert with_dims((1, 2, 3), 3, 0) == (1, 2, 3)
    with pytest.raises(ValueError, match="0 or more"):
        with_dims((1,), 0, -1)
    with pytest.raises(ValueError, match="axis 4 lies outside"):
        with_dims((1, 2, 3), 4, 1)


def test_an_order_names_every_dimension_once() -> None:
    assert permuted((8, 9, 10), (-2, 2, 0)) == (9, 10, 8)
    assert resolved_axis(-1, 3) == 2
    with pytest.raises(ValueError, match="each of 3 dimensions once"):
        permuted((8, 9, 10), (0, 0, 1))


def test_names_of_dimensions_are_identifiers_and_different() -> None:
    dims = DimensionMap(("batch", "height"))
    assert dims.index_of("height") == 1
    assert dims.order_of(("height", "batch")) == (1, 0)
    assert dims.permute((1, 0)).names == ("height", "batch")
    for names in [("x", "x"), ("1x",), ("",)]:
        with pytest.raises(ValueError, match=r"different names|names no dimension"):
            DimensionMap(names)
    with pytest.raises(ValueError, match="no dimension 'depth'"):
        dims.index_of("depth")
    with pytest.raises(ValueError, match="once"):
        dims.order_of(("batch",))


def test_what_is_no_name_or_no_order_is_refused_with_what_was_expected() -> None:
    for names in (None, "xy", (None,), (1, 2)):
        with pytest.raises(TypeError, match=r'a sequence of texts, like \("batch", "height"\), not'):
            DimensionMap(names)  # type: ignore[arg-type]
    dims = DimensionMap(("batch", "height"))
    for order in (None, ("batch", "height"), 1):
        with pytest.raises(TypeError, match="a sequence of the positions 0 to 1, not"):
            dims.permute(order)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"each of 2 dimensions once, not \[0\]"):
        dims.permute((0,))
    with pytest.raises(ValueError, match="no dimension None among"):
        dims.index_of(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a sequence of texts"):
        dims.order_of(None)  # type: ignore[arg-type]
    with pytest.raises(
        ValueError, match=r"each of the dimensions \['batch', 'height'\] once, not \['height'\]"
    ):
        dims.order_of(("height",))
