"""The monoids of reduction dimensions: identity element, combination and reduction of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import EXTENDED, bounds, is_float, numpy_dtype

# Element types whose sums are accumulated in float32.
HALF = ("float16", *(name for name in EXTENDED if is_float(name)))
# Floats without infinity: their largest number is the bound.
FINITE = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")


def accumulation(dtype: str) -> np.dtype[Any]:
    """Return the element type in which sums over `dtype` are accumulated."""
    if dtype in EXTENDED or dtype in HALF:
        return np.dtype(np.float32 if is_float(dtype) else np.int32)
    return numpy_dtype(dtype)


def identity(monoid: str, dtype: str) -> Any:
    """Return the element `e` of `dtype` with `combine(e, x) = x`, as a Python number."""
    if monoid in ("sum", "any"):
        return False if dtype == "bool" else 0
    if monoid in ("prod", "all"):
        return True if dtype == "bool" else 1
    lowest = monoid in ("max", "logsumexp")
    if is_float(dtype):
        low, high = bounds(dtype) if dtype in FINITE else (-float("inf"), float("inf"))
        return low if lowest else high
    if dtype == "bool":
        return not lowest
    return bounds(dtype)[0 if lowest else 1]


_COMBINE: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
    "logsumexp": np.logaddexp,
}


def combiner(monoid: str) -> np.ufunc:
    """Return the numpy function of two arrays that combines two partial results."""
    return _COMBINE[monoid]


def combine(monoid: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Combine two partial results, element by element, in their common element type."""
    if monoid == "logsumexp" and a.dtype.name in HALF:
        return np.logaddexp(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype)
    return np.asarray(_COMBINE[monoid](a, b))


def reduce_axes(monoid: str, array: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """Reduce the array over `axes`, in its accumulation type; an empty array reduces to the identity."""
    dtype, over = array.dtype.name, tuple(axes)
    wide = accumulation(dtype)
    if monoid == "logsumexp":
        return _logsumexp(array.astype(wide, copy=False), over)
    if monoid == "any":
        return np.asarray(np.any(array, axis=over))
    if monoid == "all":
        return np.asarray(np.all(array, axis=over))
    if monoid == "sum":
        return np.asarray(np.sum(array, axis=over, dtype=wide))
    if monoid == "prod":
        return np.asarray(np.prod(array, axis=over, dtype=wide))
    function = np.max if monoid == "max" else np.min
    return np.asarray(function(array.astype(wide, copy=False), axis=over, initial=identity(monoid, dtype)))


def _logsumexp(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    high = np.max(array, axis=axes, keepdims=True, initial=-np.inf)
    # A row of -inf (or +inf) has no finite maximum to subtract.
    shift = np.where(np.isfinite(high), high, array.dtype.type(0))
    with np.errstate(divide="ignore"):
        total = np.log(np.sum(np.exp(array - shift), axis=axes, keepdims=True))
    return np.asarray(np.squeeze(total + shift, axis=axes))
