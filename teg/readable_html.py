"""The figures of `readable` for HTML, where a prefix of a millionth is `µ`, as on pages; terminals have `u`."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.readable import SCALES
from tapestry.teg.readable import column as terminal_column
from tapestry.teg.readable import scale_of as terminal_scale

MICRO = "µ"


def scale_of(values: Sequence[float], unit: str) -> tuple[float, str]:
    """Return the factor and name of the unit in which the largest of these values is between 1 and 1000 or so."""
    factor, name = terminal_scale(values, unit)
    return factor, _in_html(name, unit)


def quantity(value: float, unit: str) -> str:
    """Format one value in a readable unit: `2.684 µs`."""
    name, (text,) = column([value], unit)
    return f"{text} {name}".rstrip()


def column(values: Sequence[float], unit: str) -> tuple[str, list[str]]:
    """Return a unit for a column, and its values as texts with equally many decimals."""
    name, texts = terminal_column(values, unit)
    return _in_html(name, unit), texts


def _in_html(name: str, unit: str) -> str:
    return f"{MICRO}{unit}" if unit in SCALES and name == f"u{unit}" else name
