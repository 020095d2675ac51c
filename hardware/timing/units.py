"""Whole ticks of time and picojoules of energy: rates are computed in float64 and rounded up once."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ticks: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]

TICKS_PER_S = 10**12
PICOJOULES_PER_J = 10**12
LARGEST = 2**62  # room for one addition of two totals in int64; as time, 53 days
FLOAT_NOISE = 2.0**-50  # what a few float64 operations add: 3.0000000000000004 ticks are 3 ticks, not 4


class OutOfRange(ValueError):
    """Error raised for times or energies that are negative, no numbers, or too large to be counted."""


def rounded_up(value: ArrayLike, unit: str) -> Ticks:
    """Round up to whole numbers, int64; what only float noise adds to a whole number does not count.

    Raises:
        OutOfRange: negative, not a number, or too large; the message names the `unit`.
    """
    exact = np.asarray(value, dtype=np.float64)
    if not np.all((exact >= 0) & (exact <= LARGEST)):
        raise OutOfRange(f"expected between 0 and {LARGEST} {unit}, not {exact.min()} to {exact.max()}")
    nearest = np.rint(exact)
    is_whole = np.abs(exact - nearest) <= exact * FLOAT_NOISE
    return np.where(is_whole, nearest, np.ceil(exact)).astype(np.int64)


def ticks(time_s: ArrayLike) -> Ticks:
    """Convert seconds, any shape, to whole ticks of 1 ps, rounded up, int64.

    Raises:
        OutOfRange: negative, not a number, or beyond 53 days.
    """
    return rounded_up(np.asarray(time_s, dtype=np.float64) * TICKS_PER_S, "ticks of 1 ps")


def seconds(time_ticks: ArrayLike) -> Floats:
    """Convert ticks of 1 ps, any shape, to seconds, float64."""
    return np.asarray(np.asarray(time_ticks, dtype=np.float64) / TICKS_PER_S)
