"""Figures for people: readable units, four digits, columns in one unit; on the command line and in notebooks alike."""

from __future__ import annotations

import math
from collections.abc import Sequence

SCALES = {
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "flop": ((1e15, "Pflop"), (1e12, "Tflop"), (1e9, "Gflop"), (1e6, "Mflop"), (1e3, "kflop"), (1.0, "flop")),
    "J": ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "uJ")),
    "USD": ((1.0, "USD"), (1e-3, "mUSD"), (1e-6, "uUSD")),
    "": ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}
# Units whose whole values are counts, written without decimals.
COUNTED = ("B", "flop", "")
DIGITS = 4
# Values outside these bounds are written in scientific notation.
LEAST, LARGEST = 1e-3, 1e7


def scale_of(values: Sequence[float], unit: str) -> tuple[float, str]:
    """Return the factor and name of the unit in which the largest of these values is between 1 and 1000 or so.

    Zeros, and a unit without smaller and larger ones (a plug-in's), stay as they are.
    """
    largest = max((abs(value) for value in values), default=0.0)
    scales = SCALES.get(unit, ())
    if not scales or largest == 0:
        return 1.0, unit
    return next((scale for scale in scales if largest >= scale[0]), scales[-1])


def decimals_of(values: Sequence[float]) -> int:
    """Return the number of decimals that shows four digits of the largest value; none where it is below `LEAST`."""
    largest = max((abs(value) for value in values), default=0.0)
    if largest < LEAST:
        return 0
    exponent = int(f"{largest:.{DIGITS - 1}e}".partition("e")[2])
    return max(0, DIGITS - 1 - exponent)


def quantity(value: float, unit: str) -> str:
    """Format one value in a readable unit: `2.684 ms`. Whole bytes, flops and unitless values are counts: `512 B`."""
    name, (text,) = column([value], unit)
    return f"{text} {name}".rstrip()


def column(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """Return a unit for a column, and its values as texts with equally many decimals.

    A value that these decimals would show as zero has its own, and scientific notation where it is below `LEAST`.
    """
    factor, name = scale_of(values, unit)
    scaled = [value / factor for value in values]
    is_count = factor == 1.0 and unit in COUNTED and all(value == math.floor(value) for value in values)
    digits = 0 if is_count else decimals_of(scaled)
    return name, [_number(value, digits) for value in scaled]


def _number(value: float, digits: int) -> str:
    size = abs(value)
    if 0 < size < 0.5 * 10.0**-digits:
        digits = decimals_of([value])
    if size == 0 or LEAST <= size < LARGEST:
        return f"{value:,.{digits}f}"
    mantissa, _, exponent = f"{value:.{DIGITS - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent)}"
