"""Bounds on objectives, in a readable notation: `peak_memory_bytes<=60GiB`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from tapestry.costmodel.objectives import NAMES, OBJECTIVES, POSITION
from tapestry.hardware.mesh import Mesh

_SCALE = {
    "B": {"": 1.0, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12}
    | {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40},
    "s": {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9},
    "flop": {"": 1.0, "flop": 1.0, "Mflop": 1e6, "Gflop": 1e9, "Tflop": 1e12},
    "J": {"": 1.0, "J": 1.0, "mJ": 1e-3, "kJ": 1e3, "Wh": 3600.0},
    "USD": {"": 1.0, "USD": 1.0},
}
_FORM = re.compile(r"^\s*([A-Za-z_]+)\s*<=?\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*)\s*$")


@dataclass(frozen=True)
class Constraint:
    """A bound `objective <= bound`, in the objective's unit."""

    objective: str
    bound: float
    unit: str

    def __str__(self) -> str:
        short = f"{self.bound:.12g}"
        number = short if float(short) == self.bound else repr(self.bound)  # read back, it is the same bound
        return f"{self.objective}<={number}{'' if self.unit == 'flop' else self.unit}"

    def excess(self, value: float) -> float:
        """Compute the relative excess of `value` over the bound; for a bound of zero, one plus the value."""
        if value <= self.bound:
            return 0.0
        return value / self.bound - 1.0 if self.bound > 0 else 1.0 + value


def parse_constraint(text: str) -> Constraint:
    """Parse a constraint.

    Raises:
        ValueError: the text has another form, or names an unknown objective or unit.
    """
    found = _FORM.match(text)
    if not found:
        raise ValueError(
            f"constraint {text!r} is not of the form objective<=number[unit], e.g. peak_memory_bytes<=60GiB"
        )
    name, number, unit = found.groups()
    if name not in POSITION:
        near = get_close_matches(name, NAMES, n=3)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(NAMES)}"
        raise ValueError(f"constraint {text!r}: unknown objective {name!r}; {hint}")
    own = OBJECTIVES[POSITION[name]].unit
    if unit not in _SCALE[own]:
        raise ValueError(
            f"constraint {text!r}: {name} is in {own}; known units are {', '.join(u for u in _SCALE[own] if u)}"
        )
    try:
        bound = float(number) * _SCALE[own][unit]
    except ValueError as error:
        raise ValueError(f"constraint {text!r}: {number!r} is not a number") from error
    return Constraint(name, bound, own)


def all_constraints(given: Sequence[Constraint | str], mesh: Mesh) -> tuple[Constraint, ...]:
    """Return the given constraints and, unless one bounds it already, the device's capacity."""
    parsed = tuple(parse_constraint(c) if isinstance(c, str) else c for c in given)
    if any(c.objective == "peak_memory_bytes" and c.bound <= mesh.device.memory_bytes for c in parsed):
        return parsed
    return (*parsed, Constraint("peak_memory_bytes", float(mesh.device.memory_bytes), "B"))
