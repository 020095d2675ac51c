import math

import ml_dtypes
import numpy as np
import pytest

from tapestry.teg.builder import define
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import TensorType, attributes


def apply(operator, attrs, *inputs):
    definition, outputs = define(operator, attrs, [TensorType(a.shape, a.dtype.name) for a in inputs])
    return run_block(definition, None, inputs, outputs)[0]


def naive_softmax(row):
    exponentials = [math.exp(v) for v in row]
    return [e / sum(exponentials) for e in exponentials]


def naive_layer_norm(row, eps):
    mean = sum(row) / len(row)
    variance = sum((v - mean) ** 2 for v in row) / len(row)
    return [(v - mean) / math.sqrt(variance + eps) for v in row]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_softmax_of_each_row(axis, rng):
    x = rng.standard_normal((2, 3, 4))

    got = apply("softmax", attributes(axes=(axis,)), x)
    logarithm = apply("log_softmax", attributes(axes=(axis,)), x)

    rows, wanted = np.moveaxis(got, axis, -1).reshape(-1, x.shape[axis]), np.moveaxis(x, axis, -1)
    for row, values in zip(rows, wanted.reshape(-1, x.shape[axis]).tolist(), strict=True):
        np.testing.assert_allclose(row, naive_softmax(values), rtol=1e-13)
    np.testing.assert_allclose(logarithm, np.log(got), rtol=1e-12)


def test_softmax_over_two_axes_stands_large_values():
    x = np.array([[[1000.0, 1000.0], [1000.0, -np.inf]]], np.float32)

    got = apply("softmax", attributes(axes=(1, 2)), x)

    np.testing.assert_allclose(got, [[[1 / 3, 1 / 3], [1 / 3, 0]]], rtol=1e-6)
    assert got.dtype == np.float32


def test_layer_norm_of_each_row(rng):
    x, scale, bias = rng.standard_normal((3, 4, 5)), rng.standard_normal(5), rng.standard_normal(5)

    got = apply("layer_norm", attributes(axes=(2,), eps=1e-3), x, scale, bias)
    plain = apply("layer_norm", attributes(axes=(1, 2), eps=1e-3), x)

    for a in range(3):
        np.testing.assert_allclose(
            plain[a].reshape(-1), naive_layer_norm(x[a].reshape(-1).tolist(), 1e-3), rtol=1e-12
        )
        for b in range(4):
            row = np.array(naive_layer_norm(x[a, b].tolist(), 1e-3))
            np.testing.assert_allclose(got[a, b], row * scale + bias, rtol=1e-12)


def test_half_types_are_normalized_in_float32(rng):
    x = rng.standard_normal((2, 512)).astype(ml_dtypes.bfloat16)

    got = apply("layer_norm", attributes(axes=(1,), eps=1e-5), x)

    wanted = apply("layer_norm", attributes(axes=(1,), eps=1e-5), x.astype(np.float32))
    np.testing.assert_array_equal(got, wanted.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("operator", "attrs", "types", "message"),
    [
        ("softmax", {"axes": ()}, ["float32"], "at least one axis"),
        ("softmax", {"axes": (-1,)}, ["float32"], "number from 0 to 2, not -1"),
        ("softmax", {"axes": (1, 1)}, ["float32"], "each once"),
        ("softmax", {"axes": (1,)}, ["int32"], "needs a float type, not int32"),
        ("layer_norm", {"axes": (1,), "eps": 0.1}, ["float32"], "must name the last dimensions"),
        ("layer_norm", {"axes": (2,), "eps": 1}, ["float32"], "'eps' must be a float"),
        (
            "layer_norm",
            {"axes": (2,), "eps": 0.1},
            ["float32"] * 2,
            "scale must have the normalized shape \\(4,\\)",
        ),
        ("layer_norm", {"axes": (2,), "eps": 0.1}, ["float32"] * 4, "expected 1 to 3 inputs"),
    ],
)
def test_a_normalization_says_what_is_wrong(operator, attrs, types, message):
    with pytest.raises(ValueError, match=message):
        define(operator, attributes(**attrs), [TensorType((2, 3, 4), t) for t in types])
