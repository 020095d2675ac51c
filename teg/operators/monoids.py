"""The monoids of reduction dimensions: identity element, combination and reduction of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import accumulation, bounds, is_float

# Floats without infinity: their largest number is the bound.
FINITE = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")


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


_COMBINE = {
    "sum": "add",
    "prod": "mul",
    "max": "max",
    "min": "min",
    "any": "or",
    "all": "and",
    "logsumexp": "logaddexp",
}


def combine(xp: ArrayNamespace, monoid: str, a: Array, b: Array) -> Array:
    """Combine two partial results, element by element, in their common element type."""
    return xp.elementwise(_COMBINE[monoid], a, b)


def reduce_axes(xp: ArrayNamespace, monoid: str, array: Array, axes: Sequence[int]) -> Array:
    """Reduce the array over `axes`, in its accumulation type; an empty array reduces to the identity."""
    dtype = xp.dtype_of(array)
    wide = accumulation(dtype)
    if monoid == "logsumexp":
        return xp.logsumexp(xp.cast(array, wide), axes)
    if monoid in ("any", "all"):
        return (xp.any if monoid == "any" else xp.all)(array, axes)
    if monoid in ("sum", "prod"):
        return (xp.sum if monoid == "sum" else xp.prod)(array, axes, wide)
    function = xp.max if monoid == "max" else xp.min
    return function(xp.cast(array, wide), axes, identity(monoid, dtype))
