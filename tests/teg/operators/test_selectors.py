import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators.selectors import (
    broadcast,
    permuted,
    reversed_along,
    selected,
    sliced,
    squeezed,
    unsqueezed,
    view_attributes,
)
from tapestry.teg.padding_modes import PADDING_MODES, padding_parts
from tapestry.teg.views import ViewMap

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


@pytest.mark.parametrize("mode", PADDING_MODES)
@given(size=st.integers(1, 6), low=st.integers(0, 9), high=st.integers(0, 9))
def test_padding_by_a_lines_own_elements_is_numpys(mode, size, low, high):
    line = np.arange(size)

    parts = [np.resize(line[part.kept], part.length) for part in padding_parts(size, low, high, mode)]

    np.testing.assert_array_equal(np.concatenate(parts), np.pad(line, (low, high), mode=mode))


@given(size=st.integers(1, 6), low=st.integers(0, 9), high=st.integers(0, 9), factor=st.integers(0, 3))
def test_padding_by_an_index_function_asks_it_for_each_position_outside(size, low, high, factor):
    line, requested = np.arange(size), []

    def chosen(position: int, extent: int) -> int:
        requested.append((position, extent))
        return position * factor % extent

    parts = [np.resize(line[part.kept], part.length) for part in padding_parts(size, low, high, chosen)]

    assert requested == [(k, size) for k in (*range(-low, 0), *range(size, size + high))]
    expected = [k if 0 <= k < size else k * factor % size for k in range(-low, size + high)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)


def test_a_position_that_repeats_is_one_part():
    parts = padding_parts(4, 3, 5, lambda position, size: size - 1 if position < 0 else 0)

    assert [(part.kept, part.length) for part in parts] == [(range(3, 4), 3), (range(4), 4), (range(1), 5)]


@pytest.mark.parametrize("given_position", [4, -1, 1.5, None])
def test_an_index_function_stays_inside_the_line(given_position):
    message = rf"gives {given_position} for position -1; a line of 4 elements has the positions 0 to 3"

    with pytest.raises(ValueError, match=message):
        padding_parts(4, 1, 0, lambda *_: given_position)
    with pytest.raises(ValueError, match="no elements to pad by an index function"):
        padding_parts(0, 1, 0, lambda *_: 0)


def test_constants_fill_and_crops_are_views():
    got = apply("pad", attributes(low=(0, 0, 1), high=(0, 1, 0), value=7), X)

    np.testing.assert_array_equal(got, np.pad(X, [(0, 0), (0, 1), (1, 0)], constant_values=7))
    with pytest.raises(ValueError, match="numbers of at least 0"):
        apply("pad", attributes(low=(0, -4, 0), high=(0, 0, 0)), X)
    with pytest.raises(ValueError, match="'mode' can only be 'constant'"):
        apply("pad", attributes(low=(0, 1, 0), high=(0, 0, 0), mode="edge"), X)


def test_elements_in_turn_and_zeros_between():
    got = apply("interleave", attributes(axis=2), X, -X)

    assert got.shape == (2, 3, 8)
    np.testing.assert_array_equal(got[..., ::2], X)
    np.testing.assert_array_equal(got[..., 1::2], -X)
    np.testing.assert_array_equal(apply("dilate", attributes(axis=0, factor=3), X[0])[::3], X[0])
    assert apply("dilate", attributes(axis=0, factor=3), X[0]).sum() == X[0].sum()


def test_transforms_and_matrices_are_numpys(rng):
    stack = rng.standard_normal((4, 3, 3)) + 3 * np.eye(3)
    right, spd = rng.standard_normal((4, 3, 2)), stack @ stack.transpose(0, 2, 1)

    np.testing.assert_allclose(
        apply("linalg", attributes(function="solve"), stack, right), np.linalg.solve(stack, right)
    )
    np.testing.assert_allclose(apply("linalg", attributes(function="det"), stack), np.linalg.det(stack))
    upper = apply("linalg", attributes(function="cholesky", lower=False), spd)
    np.testing.assert_allclose(upper.conj().transpose(0, 2, 1) @ upper, spd)
    solved = apply("linalg", attributes(function="triangular_solve", unit_diagonal=True), stack, right)
    np.testing.assert_allclose((np.tril(stack, -1) + np.eye(3)) @ solved, right)
    lines = (stack + 1j * stack).astype(np.complex64)
    back = apply("fft", attributes(axis=1, inverse=True), apply("fft", attributes(axis=1), lines))
    np.testing.assert_allclose(back, lines, rtol=1e-5)
