"""Results for people: aligned tables, readable units, colors only on a terminal; JSON for programs."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Sequence
from typing import Any, TextIO

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
COLORS = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33"}


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


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Format the lines of a table; columns in `right` are aligned to the right, all are two blanks apart."""
    widths = [max(len(row[k]) for row in (headers, *rows)) for k in range(len(headers))]
    return [
        "  ".join(
            cell.rjust(width) if k in right else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (headers, *rows)
    ]


def paint(text: str, color: str, stream: TextIO | None = None) -> str:
    """Return the text in a color, if `stream` (standard output) is a terminal that may show one."""
    target = sys.stdout if stream is None else stream
    if not target.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{COLORS[color]}m{text}\x1b[0m"


def print_table(headers: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> None:
    """Print a table on standard output, its head in bold."""
    head, *lines = table(headers, rows, right)
    print(paint(head, "bold"))
    for line in lines:
        print(line)


def print_json(document: Any) -> None:
    """Print a JSON value on standard output."""
    print(json.dumps(document, indent=2, allow_nan=False))


def verdict(holds: bool, yes: str = "ok", no: str = "FAILED") -> str:
    """Format whether something holds, in green or red."""
    return paint(yes, "green") if holds else paint(no, "red")
