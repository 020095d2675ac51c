"""Kernels that other libraries have, spelled out in numpy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import accumulation, numpy_dtype

UFUNCS: Mapping[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "logsumexp": np.logaddexp,
}


def _wide(array: np.ndarray) -> np.ndarray:
    """Return the values in their accumulation type."""
    return array.astype(numpy_dtype(accumulation(array.dtype.name)), copy=False)


def logsumexp(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Compute the logarithm of the sum of exponentials over axes; of no elements it is minus infinity."""
    high = np.max(array, axis=axes, keepdims=True, initial=-np.inf)
    # A row of -inf (or +inf) has no finite maximum to subtract.
    shift = np.where(np.isfinite(high), high, array.dtype.type(0))
    total = np.log(np.sum(np.exp(array - shift), axis=axes, keepdims=True))
    return np.asarray(np.squeeze(total + shift, axis=axes))


def scan(monoid: str, array: np.ndarray, axis: int) -> np.ndarray:
    """Combine the elements up to each place; numpy would widen sums and products of small integers."""
    return np.asarray(UFUNCS[monoid].accumulate(array, axis=axis, dtype=array.dtype))


def scatter_rows(
    monoid: str, values: np.ndarray, positions: np.ndarray, count: int, identity: Any
) -> np.ndarray:
    """Combine rows that share a position, `(count, r)`; those outside `[0, count)` are left out."""
    hit = (positions >= 0) & (positions < count)
    rows = positions[hit]
    result = np.full((count, values.shape[1]), identity, values.dtype)
    if rows.size:
        order = np.argsort(rows, kind="stable")
        starts = np.flatnonzero(np.diff(rows[order], prepend=-1))
        # A ufunc's `reduceat` reduces the runs of equal rows.
        result[rows[order][starts]] = UFUNCS[monoid].reduceat(_wide(values[hit][order]), starts, axis=0)
    return result


def _shifted(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Return the values minus their row's maximum, in the accumulation type and a new array."""
    wide = _wide(array)
    return np.asarray(wide - np.max(wide, axis=axes, keepdims=True, initial=-np.inf))


def softmax(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Compute softmax; exponentials and sums are rounded to the element type, as where the softmax is written out."""
    values = _shifted(array, axes)
    np.exp(values, out=values)
    values = _rounded(values, array.dtype)
    values /= _rounded(np.sum(values, axis=axes, keepdims=True), array.dtype)
    return values.astype(array.dtype, copy=False)


def _rounded(wide: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Round values to those that `dtype` can hold, still in their wider type."""
    return wide if wide.dtype == dtype else wide.astype(dtype).astype(wide.dtype)


def log_softmax(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """Compute the logarithm of softmax."""
    values = _shifted(array, axes)
    values -= np.log(np.sum(np.exp(values), axis=axes, keepdims=True))
    return values.astype(array.dtype, copy=False)


def layer_norm(
    array: np.ndarray, rank: int, eps: float, scale: np.ndarray | None, bias: np.ndarray | None
) -> np.ndarray:
    """Move rows, the last `rank` dimensions, to mean 0 and variance 1; multiply by `scale`, add `bias`."""
    lead = array.shape[: array.ndim - rank]
    width = math.prod(array.shape[array.ndim - rank :])
    wide = numpy_dtype(accumulation(array.dtype.name))
    rows = array.astype(wide, copy=False).reshape(*lead, width)
    values = rows - np.mean(rows, axis=-1, keepdims=True)
    variance = np.einsum("...i,...i->...", values, values)[..., None] / wide.type(width)
    values *= np.reciprocal(np.sqrt(variance + wide.type(eps)))
    if scale is not None:
        values *= scale.reshape(width).astype(wide, copy=False)
    if bias is not None:
        values += bias.reshape(width).astype(wide, copy=False)
    return np.asarray(values.reshape(array.shape), array.dtype)


def convolve(
    x: np.ndarray, kernel: np.ndarray, strides: Sequence[int], dilations: Sequence[int], groups: int
) -> np.ndarray:
    """Convolve `(n, c, *spatial)` with `(o, c / groups, *taps)`: one matrix product per image."""
    dtype, wide_x, wide_kernel = x.dtype, _wide(x), _wide(kernel)
    counts = _counts(x.shape[2:], kernel.shape[2:], strides, dilations)
    matrix = wide_kernel.reshape(groups, kernel.shape[0] // groups, -1)
    result = np.empty((x.shape[0], kernel.shape[0], *counts), wide_x.dtype)
    for image, out in zip(wide_x, result, strict=True):
        taps = _taps(image, kernel.shape[2:], strides, dilations, counts)
        columns = taps.reshape(groups, matrix.shape[2], -1)
        np.matmul(matrix, columns, out=out.reshape(groups, matrix.shape[1], -1))
    return result.astype(dtype, copy=False)


def _counts(
    spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Count the windows that fit, per dimension."""
    each = zip(spatial, kernel, strides, dilations, strict=True)
    return tuple((size - (k - 1) * d - 1) // s + 1 for size, k, s, d in each)


def _taps(
    image: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    counts: Sequence[int],
) -> np.ndarray:
    """Return the taps `(channels, *kernel, *counts)` of an image `(channels, *spatial)` as a strided view."""
    steps = image.strides[1:]
    taps = [s * d for s, d in zip(steps, dilations, strict=True)]
    moves = [s * n for s, n in zip(steps, strides, strict=True)]
    shape = (image.shape[0], *kernel, *counts)
    return np.lib.stride_tricks.as_strided(image, shape, (image.strides[0], *taps, *moves), writeable=False)


def reduce_windows(
    monoid: str, x: np.ndarray, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> np.ndarray:
    """Combine all taps of each window, one spatial dimension after the other: `(n, c, *windows)`."""
    counts = _counts(x.shape[2:], kernel, strides, dilations)
    for k, (taps, stride, dilation, count) in enumerate(zip(kernel, strides, dilations, counts, strict=True)):
        lead = (slice(None),) * (2 + k)
        parts = [
            x[(*lead, slice(t * dilation, t * dilation + stride * (count - 1) + 1, stride))]
            for t in range(taps)
        ]
        result = parts[0].copy()
        for part in parts[1:]:
            UFUNCS[monoid](result, part, out=result)
        x = result
    return x
