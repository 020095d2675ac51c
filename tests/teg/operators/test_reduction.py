import math
from functools import reduce
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from tapestry.teg.arrays import NUMPY
from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes
from tapestry.teg.operators.monoids import combine, identity
from tapestry.teg.signature import MONOIDS
from tapestry.teg.zspace import ZRange

COMBINE = {
    "sum": lambda a, b: a + b,
    "prod": lambda a, b: a * b,
    "max": max,
    "min": min,
    "any": lambda a, b: a or b,
    "all": lambda a, b: a and b,
    "logsumexp": lambda a, b: math.log(math.exp(a) + math.exp(b)),
}


def reduced(array, index=None, **attrs):
    definition, outputs = define("reduce", attributes(**attrs), [TensorType(array.shape, array.dtype.name)])
    return run_block(definition, index, (array,), outputs)[0]


@pytest.mark.parametrize("monoid", MONOIDS)
def test_a_reduction_folds_the_monoid(monoid, rng):
    array = rng.random((2, 3, 4)) > 0.3 if monoid in ("any", "all") else rng.uniform(-2, 2, (2, 3, 4))

    got = reduced(array, monoid=monoid, labels=("a", "b", "c"), output=("c", "a"))

    for c in range(4):
        for a in range(2):
            wanted = reduce(COMBINE[monoid], array[a, :, c].tolist())
            np.testing.assert_allclose(got[c, a], wanted, rtol=1e-13)


def test_a_mean_is_a_scaled_sum_that_may_keep_its_dimensions(rng):
    array = rng.standard_normal((2, 3, 4)).astype(np.float32)

    got = reduced(array, monoid="sum", labels=("a", "b", "c"), output=("a",), keep=(1, 2), scale=1 / 12)

    assert (got.shape, got.dtype) == ((2, 1, 1), np.float32)
    np.testing.assert_allclose(got, array.mean(axis=(1, 2), keepdims=True), rtol=1e-5)


def test_half_types_are_summed_in_float32():
    array = np.ones(4096, ml_dtypes.bfloat16)

    # In bfloat16 itself the sum would stop at 256, where adding 1 no longer changes it.
    assert float(reduced(array, monoid="sum", labels=("a",), output=())) == 4096


def test_logsumexp_stands_large_and_infinite_values():
    rows = np.array([[1000.0, 1000.0], [-np.inf, -np.inf], [np.inf, 0.0]])

    got = reduced(rows, monoid="logsumexp", labels=("a", "b"), output=("a",))

    np.testing.assert_allclose(got, [1000 + math.log(2), -np.inf, np.inf])


@pytest.mark.parametrize(
    ("monoid", "dtype"),
    [
        *product(("sum", "prod", "max", "min"), ("float32", "bfloat16", "int8", "uint64")),
        *product(("logsumexp",), ("float32", "bfloat16")),
        *product(("any", "all"), ("bool",)),
    ],
)
def test_the_identity_changes_nothing(monoid, dtype):
    boolean = dtype == "bool"
    values = np.array([0, 1] if boolean else [0, 1, 5]).astype(
        ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    )
    neutral = np.full(values.shape, identity(monoid, dtype), values.dtype)

    got = combine(NUMPY, monoid, neutral, values)

    assert got.dtype == values.dtype
    np.testing.assert_array_equal(got, values)


def test_an_empty_part_of_a_maximum_is_the_identity():
    array = np.zeros((2, 3), np.int16)

    got = reduced(array, ZRange((0, 2), (2, 2)), monoid="max", labels=("a", "b"), output=("a",))

    np.testing.assert_array_equal(got, np.full(2, -(2**15), np.int16))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"monoid": "mean"}, "must be one of sum, max.*not 'mean'"),
        ({"monoid": "any"}, "'any' does not reduce float32"),
        ({"labels": ("a",)}, "each dimension of \\(2, 3\\) its own name"),
        ({"labels": ("a", "a")}, "each dimension of \\(2, 3\\) its own name"),
        ({"output": ("z",)}, "names among \\('a', 'b'\\)"),
        ({"keep": (2,)}, "different positions below 2"),
        ({"monoid": "max", "scale": 0.5}, "belongs to sums of floats"),
    ],
)
def test_a_reduction_says_what_is_wrong(change, message):
    attrs = {"monoid": "sum", "labels": ("a", "b"), "output": ("a",), **change}

    with pytest.raises(ValueError, match=message):
        define("reduce", attributes(**attrs), (TensorType((2, 3), "float32"),))
