"""Quantities as people write them: a number and a unit, such as `40GiB` or `5ms`."""

from __future__ import annotations

import re

from tapestry.teg.faults import ArgumentError

# By unit, the texts that stand for it or a multiple of it; without a text the number is in the unit itself.
SCALES = {
    "B": {"": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
    "s": {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "flop": {"": 1.0, "flop": 1.0, "Mflop": 1e6, "Gflop": 1e9, "Tflop": 1e12},
    "J": {"": 1.0, "J": 1.0, "mJ": 1e-3, "kJ": 1e3, "Wh": 3600.0},
    "USD": {"": 1.0, "USD": 1.0},
}
_FORM = re.compile(r"\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)\s*")


def scales_of(unit: str) -> dict[str, float]:
    """Return the texts of a unit's multiples and what each is in the unit; one that is not known has none."""
    return SCALES.get(unit, {"": 1.0, unit: 1.0})


def quantity(text: str, unit: str) -> float:
    """Return a quantity of a known unit: `quantity("40GiB", "B")` is 42949672960.0.

    Raises:
        ArgumentError: the text is not a number with one of the unit's texts.
    """
    found, scales = _FORM.fullmatch(text), scales_of(unit)
    if found is None or found[2] not in scales:
        known = ", ".join(name for name in scales if name) or "none"
        raise ArgumentError(f"expected a number and a unit (known are {known}), not {text!r}")
    try:
        return float(found[1]) * scales[found[2]]
    except ValueError:
        raise ArgumentError(f"{found[1]!r} in {text!r} is not a number") from None
