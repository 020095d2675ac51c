"""Tests that views by offset and strides see what numpy's views see."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.operators.selectors import broadcast, permuted, reversed_along, selected, sliced
from tapestry.teg.strided import StridedView, parse_selection, strided
from tapestry.teg.views import ViewMap

DATA = np.arange(60)
WHOLE = StridedView.contiguous((3, 4, 5))


@given(st.data())
def test_a_chain_of_views_is_that_of_numpy(data: st.DataObject) -> None:
    view, array = WHOLE, DATA.reshape(3, 4, 5)
    for _ in range(data.draw(st.integers(0, 4))):
        rank = array.ndim
        kind = data.draw(st.sampled_from(["permute", "reverse", "select", "unsqueeze"]))
        if kind == "permute":
            order = data.draw(st.permutations(range(rank)))
            view, array = view.permute(order), array.transpose(order)
        elif kind == "reverse" and rank:
            axis = data.draw(st.integers(-rank, rank - 1))
            view, array = view.reverse(axis), np.flip(array, axis)
        elif kind == "select" and rank and 0 not in array.shape:
            step = data.draw(st.sampled_from([1, 2, -1, -2, None]))
            low = data.draw(st.none() | st.integers(-6, 6))
            part = slice(low, data.draw(st.none() | st.integers(-6, 6)), step)
            parts = (data.draw(st.just(part) | st.integers(-array.shape[0], array.shape[0] - 1)),)
            view, array = view.select(parts), array[parts]
        elif kind == "unsqueeze":
            axis, size = data.draw(st.integers(0, rank)), data.draw(st.integers(1, 3))
            view = view.unsqueeze(axis, size)
            array = np.repeat(np.expand_dims(array, axis), size, axis)
    np.testing.assert_array_equal(view.read(DATA), array)
    for point in np.ndindex(array.shape):
        assert DATA[view.position(point)] == array[point]


@pytest.mark.parametrize(
    "view",
    [
        permuted((3, 4, 5), (2, 0, 1)),
        sliced((3, 4, 5), (0, 3, 1), (3, -1, 5), (1, -2, 2)),
        selected((3, 4, 5), 1, 2),
        reversed_along((3, 4, 5), (0, 2)),
        broadcast((3, 4, 5), (2, 3, 4, 5)),
    ],
)
def test_a_view_block_is_a_strided_view_of_its_root(view: ViewMap) -> None:
    found = strided(view, (3, 4, 5)).read(DATA)
    assert found.shape == view.shape
    root = DATA.reshape(3, 4, 5)
    for point in np.ndindex(view.shape):
        at = tuple(d.offset + (d.stride * point[d.dim] if d.dim >= 0 else 0) for d in view.dims)
        assert found[point] == root[at]


def test_a_broadcast_view_is_known_to_be_one() -> None:
    assert WHOLE.unsqueeze(0, 7).is_broadcast
    assert not WHOLE.unsqueeze(0).is_broadcast and not WHOLE.reverse(1).is_broadcast
    assert WHOLE.unsqueeze(1).squeeze(1) == WHOLE


def test_selections_are_read_as_python_writes_them() -> None:
    assert parse_selection("t[0:3, 5, 0::2]") == (slice(0, 3), 5, slice(0, None, 2))
    assert parse_selection(" x[-1] ") == (-1,)
    for text in ["t", "t[", "t[f(1)]", "t[1.5]", "t[True]", "t[" * 5000, "t[a:b]"]:
        with pytest.raises(ValueError, match=r"is no selection|by numbers"):
            parse_selection(text)


def test_what_lies_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="outside a dimension of size 3"):
        WHOLE.select((3,))
    with pytest.raises(ValueError, match="no point"):
        WHOLE.position((0, 0, 5))
    with pytest.raises(ValueError, match="size 1 can be squeezed"):
        WHOLE.squeeze(0)
    with pytest.raises(ValueError, match="4 parts"):
        WHOLE.select((0, 0, 0, 0))
    with pytest.raises(ValueError, match="as many strides"):
        StridedView(0, (1, 2), (1,))
