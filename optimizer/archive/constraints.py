"""Bounds on objectives, in a readable notation: `peak_memory_bytes<=60GiB`, or relative: `time_s<=110%`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.hardware.device import Device
from tapestry.hardware.mesh import Mesh
from tapestry.teg.arguments import NUMBER, TEXT, check_arguments
from tapestry.teg.faults import ArgumentError
from tapestry.teg.known_fields import known_fields
from tapestry.teg.quantities import scales_of

PERCENT = "%"
BOUND = NUMBER._replace(hint="write Constraint('time_s', 0.005), or the text 'time_s<=5ms'")
_FORM = re.compile(r"^\s*([^<>=]*[^<>=\s])\s*<=?\s*([0-9.]+(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z]*|%)\s*$")


@known_fields(ArgumentError)
@dataclass(frozen=True)
class Constraint:
    """A bound `objective <= bound`, in the objective's unit.

    With the unit `%` it is relative: so many percent of the least value that a plan of the run has had so far. It
    tightens as better plans are found; those that then break it leave the front. Without a unit it is in that of the
    objective.

    Raises:
        ArgumentError: arguments of another type or name, all of them.
    """

    objective: str
    bound: float
    unit: str = ""

    def __post_init__(self) -> None:
        given = {"objective": self.objective, "bound": self.bound, "unit": self.unit}
        check_arguments({"objective": TEXT, "bound": BOUND, "unit": TEXT}, given)

    def __str__(self) -> str:
        short = f"{self.bound:.12g}"
        number = short if float(short) == self.bound else repr(self.bound)  # read back, it is the same bound
        return f"{self.objective}<={number}{'' if self.unit == 'flop' else self.unit}"

    @property
    def is_relative(self) -> bool:
        """True for a bound in percent of the run's best."""
        return self.unit == PERCENT

    def excess(self, value: float) -> float:
        """Compute the relative excess of `value` over the bound; for a bound of zero, one plus the value."""
        if value <= self.bound:
            return 0.0
        return value / self.bound - 1.0 if self.bound > 0 else 1.0 + value


def parse_constraint(text: str, known: KnownObjectives | None = None) -> Constraint:
    """Parse a constraint on one of the `known` objectives, by default those of the catalog, or an expression over them.

    Raises:
        ValueError: the text has another form, names an unknown objective or unit, or asks for less than the best.
    """
    found = _FORM.match(text)
    if found and "<=" not in text:
        raise ValueError(f"constraint {text!r} has '<', but a bound may be reached: write '<='")
    if not found:
        raise ValueError(
            f"constraint {text!r} is not of the form objective<=number[unit], e.g. peak_memory_bytes<=60GiB, "
            "or time_s<=110% for a share of the best"
        )
    name, number, unit = found.groups()
    try:
        objective = (known or KnownObjectives()).named(name)
    except ValueError as error:
        raise ValueError(f"constraint {text!r}: {error}") from error
    try:
        bound = float(number)
    except ValueError as error:
        raise ValueError(f"constraint {text!r}: {number!r} is not a number") from error
    if unit == PERCENT:
        if bound < 100:
            raise ValueError(f"constraint {text!r}: no plan has less than 100% of the best; give 100 or more")
        return Constraint(objective.name, bound, PERCENT)
    scale = scales_of(objective.unit)
    if unit not in scale:
        units = ", ".join(u for u in (*scale, PERCENT) if u)
        own = f"is in {objective.unit}" if objective.unit else "has no unit"
        raise ValueError(f"constraint {text!r}: {objective.name} {own}; known units are {units}")
    return Constraint(objective.name, bound * scale[unit], objective.unit)


def all_constraints(
    given: Sequence[Constraint | str], mesh: Mesh, known: KnownObjectives | None = None
) -> tuple[Constraint, ...]:
    """Return the given constraints and, unless one bounds it already, the device's capacity.

    A device without figures of what processes take beside their tensors is to hold the tensors at least.
    """
    known = known or KnownObjectives()
    parsed = tuple(parse_constraint(c, known) if isinstance(c, str) else c for c in given)
    capacity = Constraint(memory_objective(mesh.device, known), float(mesh.device.memory_bytes), "B")
    is_bounded = any(
        c.objective == capacity.objective and not c.is_relative and c.bound <= capacity.bound for c in parsed
    )
    return parsed if is_bounded else (*parsed, capacity)


def memory_objective(device: Device, known: KnownObjectives | None = None) -> str:
    """Return the name of the objective that the capacity of a device bounds."""
    known = known or KnownObjectives()
    is_known = known.missing(known.by_name["device_memory_bytes"], device) is None
    return "device_memory_bytes" if is_known else "peak_memory_bytes"


def fits(cost: Mapping[str, float], mesh: Mesh) -> bool:
    """Return whether a plan of this cost fits into the memory of each device of a mesh.

    Costs that an earlier release stored may have the peak memory only.
    """
    name = memory_objective(mesh.device)
    return cost[name if name in cost else "peak_memory_bytes"] <= mesh.device.memory_bytes
