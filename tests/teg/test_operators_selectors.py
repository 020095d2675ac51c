import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from teg.builder import define
from teg.evaluate import run_block
from teg.graph import TensorType, attributes
from teg.operators.selectors import (
    broadcast,
    permuted,
    reversed_along,
    selected,
    sliced,
    squeezed,
    unsqueezed,
    view_attributes,
)
from teg.views import ViewMap

X = np.arange(2 * 3 * 4, dtype=np.int32).reshape(2, 3, 4)


def apply(operator, attrs, *inputs):
    definition, outputs = define(operator, attrs, [TensorType(a.shape, a.dtype.name) for a in inputs])
    return run_block(definition, None, inputs, outputs)[0]


def seen_through(view: ViewMap, array: np.ndarray) -> np.ndarray:
    return apply("view", view_attributes(view), array)


@pytest.mark.parametrize(
    ("view", "wanted"),
    [
        (permuted(X.shape, (2, 0, 1)), X.transpose(2, 0, 1)),
        (selected(X.shape, -1, -2), X[..., -2]),
        (unsqueezed(X.shape, (0, -1)), X[None, ..., None]),
        (broadcast(X.shape, (5, 2, 3, 4)), np.broadcast_to(X, (5, 2, 3, 4))),
        (reversed_along(X.shape, (0, 2)), X[::-1, :, ::-1]),
        (sliced(X.shape, (0, 2, 1), (2, -1, 4), (1, -2, 2)), X[:, ::-2, 1::2]),
        (sliced(X.shape, (0, 1, 0), (2, 1, 4)), X[:, 1:1]),
    ],
)
def test_views_are_what_numpy_makes_and_share_its_memory(view, wanted):
    got = seen_through(view, X)

    np.testing.assert_array_equal(got, wanted)
    assert got.size == 0 or np.shares_memory(got, X)


def test_size_1_dimensions_come_go_and_stretch():
    thin = X[:, :1]

    np.testing.assert_array_equal(seen_through(squeezed(thin.shape, (1,)), thin), thin[:, 0])
    np.testing.assert_array_equal(
        seen_through(broadcast(thin.shape, (2, 3, 4)), thin), np.broadcast_to(thin, (2, 3, 4))
    )
    with pytest.raises(ValueError, match="only dimensions of size 1"):
        squeezed(X.shape, (0,))
    with pytest.raises(ValueError, match="cannot be broadcast"):
        broadcast(X.shape, (2, 3, 5))


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(-1, 7), st.sampled_from([-3, -1, 1, 2])),
        min_size=1,
        max_size=3,
    )
)
def test_any_slice_is_numpys(bounds):
    array = np.arange(7 ** len(bounds)).reshape((7,) * len(bounds))
    starts, ends, steps = zip(*bounds, strict=True)
    picked = np.ix_(*[[k for k in range(s, e, d) if 0 <= k < 7] for s, e, d in bounds])

    got = seen_through(sliced(array.shape, starts, ends, steps), array)

    np.testing.assert_array_equal(got, array[picked])


@pytest.mark.parametrize(
    ("given_map", "shape", "message"),
    [
        (((0, 1, 0),), (2,), "one|a \\(dim, stride, offset\\) per dimension"),
        (((0, 1, 0), (0, 1, 0), (1, 1, 0)), (2, 4), "along one root dimension only"),
        (((0, 1, 0), (1, 1, 0), (2, 1, 1)), (2, 3, 4), "root dimension 2 of size 4 is read from 1 to 4"),
        (((0, 1, 0), (1, 1, 0), (2, 0, 1)), (2, 3, 4), "stride 0"),
        (((0, 1, 0), (1, 1, 0), (3, 1, 0)), (2, 3, 4), "names view dimension 3 of 3"),
    ],
)
def test_a_view_stays_inside_its_root(given_map, shape, message):
    with pytest.raises(ValueError, match=message):
        define("view", attributes(map=given_map, shape=shape), (TensorType(X.shape, "int32"),))


def test_concatenation_is_numpys_and_checks_what_it_joins():
    got = apply("concat", attributes(axis=1), X, X[:, :1], X)

    np.testing.assert_array_equal(got, np.concatenate([X, X[:, :1], X], axis=1))
    with pytest.raises(ValueError, match="inputs must agree but for axis 1"):
        apply("concat", attributes(axis=1), X, X[:1])
    with pytest.raises(ValueError, match="number from 0 to 2, not -1"):
        apply("concat", attributes(axis=-1), X, X)


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_padding_is_numpys(mode):
    got = apply("pad", attributes(low=(0, 2, 1), high=(0, 1, 0), mode=mode), X)

    np.testing.assert_array_equal(got, np.pad(X, [(0, 0), (2, 1), (1, 0)], mode=mode))


def test_negative_padding_crops_and_constants_fill():
    got = apply("pad", attributes(low=(0, -1, 1), high=(0, 1, -2), value=7), X)

    wanted = np.pad(X[:, 1:, :-2], [(0, 0), (0, 1), (1, 0)], constant_values=7)
    np.testing.assert_array_equal(got, wanted)
    with pytest.raises(ValueError, match="leaves \\(2, -1, 4\\)"):
        apply("pad", attributes(low=(0, -4, 0), high=(0, 0, 0)), X)
