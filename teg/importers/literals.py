"""Small known values: compressed where all slices are equal, recognized where they are a progression."""

from __future__ import annotations

import math

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.program import Literal, Value

COMPRESS_LIMIT_BYTES = 4 * 1024 * 1024


def literal(array: np.ndarray) -> Literal:
    """Build a known value, compressed along the dimensions in which all its slices are equal."""
    shape = array.shape
    if array.size == 0:
        return Literal(np.zeros((1,) * array.ndim, array.dtype), shape)
    # What numpy repeats without storing it is not written out either.
    array = array[tuple(slice(0, 1) if step == 0 else slice(None) for step in array.strides)]
    if array.nbytes <= COMPRESS_LIMIT_BYTES:
        for axis in range(array.ndim):
            first = array[(slice(None),) * axis + (slice(0, 1),)]
            if array.shape[axis] > 1 and np.array_equal(array, np.broadcast_to(first, array.shape)):
                array = first
    return Literal(np.ascontiguousarray(array).reshape(array.shape), shape)


def nothing(value: Value) -> Literal:
    """Build a value without elements."""
    return Literal(np.zeros((1,) * len(value.shape), numpy_dtype(value.dtype)), value.shape)


def affine(array: np.ndarray) -> tuple[float, float] | None:
    """Return `(start, step)` if the one-dimensional `array` is exactly `start + step * i`, else None."""
    if array.ndim != 1 or array.size < 2 or array.dtype.kind not in "iuf":
        return None
    start, step = array[0].item(), array[1].item() - array[0].item()
    if not math.isfinite(start + step * array.size) or not _may_be_line(array, start, step):
        return None
    with np.errstate(over="ignore"):
        line = (start + step * np.arange(array.size)).astype(array.dtype)
    return (start, step) if np.array_equal(array, line) else None


def _may_be_line(array: np.ndarray, start: float, step: float) -> bool:
    """Return whether a few elements are those of the line; so most arrays are told from one without reading all."""
    places = np.unique(np.linspace(0, array.size - 1, 8).astype(np.int64))
    with np.errstate(over="ignore"):
        return np.array_equal(array[places], (start + step * places).astype(array.dtype))
