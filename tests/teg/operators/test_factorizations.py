"""Tests that factors multiply to the factorized matrix."""

import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes


def factors(function, *arrays, **options):
    types = [TensorType(a.shape, a.dtype.name) for a in arrays]
    definition, outputs = define("factorise", attributes(function=function, **options), types)
    return run_block(definition, None, arrays, outputs)


def complex_normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def test_lu(rng):
    value = rng.standard_normal((2, 4, 3))
    for matrix, packed, rows in zip(value, *factors("lu", value), strict=True):
        swapped = matrix.copy()
        for k, row in enumerate(rows):
            swapped[[k, row]] = swapped[[row, k]]
        lower = np.tril(packed, -1) + np.eye(4, 3)
        np.testing.assert_allclose(lower @ np.triu(packed[:3]), swapped, atol=1e-12)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_qr_and_its_reflectors(rng, kind):
    value = rng.standard_normal((2, 5, 3)) if kind == "real" else complex_normal(rng, 2, 5, 3)
    packed, scales = factors("qr", value)
    (q,) = factors("reflect", packed, scales)
    np.testing.assert_allclose(q @ np.triu(packed[:, :3]), value, atol=1e-12)
    np.testing.assert_allclose(
        np.conj(np.swapaxes(q, 1, 2)) @ q, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-12
    )


def test_eigenvectors_of_hermitian_matrices(rng):
    value = complex_normal(rng, 3, 4, 4)
    value = value + np.conj(np.swapaxes(value, 1, 2))
    vectors, values = factors("eigh", value, lower=False)
    assert values.dtype == np.float64
    np.testing.assert_allclose(value @ vectors, vectors * values[:, None], atol=1e-12)


@pytest.mark.parametrize("full", [False, True])
def test_singular_values(rng, full):
    value = rng.standard_normal((2, 2, 4))
    left, values, right = factors("svd", value, full=full)
    assert right.shape == (2, 4 if full else 2, 4)
    np.testing.assert_allclose((left * values[:, None]) @ right[:, :2], value, atol=1e-12)


@pytest.mark.parametrize(
    ("function", "shapes", "message"),
    [
        ("lq", [(3, 3)], "must be one of lu, qr"),
        ("eigh", [(3, 2)], "needs square matrices"),
        ("reflect", [(2, 3), (2,)], "needs tall matrices"),
        ("svd", [(3,)], "a stack of matrices"),
    ],
)
def test_what_is_no_matrix_is_reported(function, shapes, message):
    with pytest.raises(ValueError, match=message):
        factors(function, *(np.ones(shape) for shape in shapes))


def test_an_option_of_another_function_is_reported():
    with pytest.raises(ValueError, match="'lu' takes option none"):
        factors("lu", np.ones((2, 2)), full=True)
