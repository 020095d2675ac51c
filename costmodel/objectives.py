"""The objectives: name, unit, direction and the position of each in a cost vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from tapestry.hardware.mesh import Device


@dataclass(frozen=True)
class Objective:
    """A named cost. `figures` are the device figures without which it is refused, never taken as zero."""

    name: str
    unit: str
    formula: str
    figures: tuple[str, ...] = ()
    direction: str = "minimize"

    def missing(self, device: Device) -> str | None:
        """Return the first figure that the device lacks for this objective; None if it lacks none."""
        if self.name == "energy_j":
            return device.missing_energy_figure
        return next((figure for figure in self.figures if getattr(device, figure) is None), None)


OBJECTIVES: tuple[Objective, ...] = (
    Objective("time_s", "s", "makespan of one execution of the graph"),
    Objective("peak_memory_bytes", "B", "maximum over devices of live padded bytes, inputs included"),
    Objective("total_memory_bytes", "B", "sum over devices of their peaks"),
    Objective("compute_flops", "flop", "executed on all devices, replication included"),
    Objective("peak_compute_flops", "flop", "maximum over devices of executed flops"),
    Objective("traffic_bytes", "B", "logical bytes received from other devices, summed over devices"),
    Objective(
        "memory_waste_bytes",
        "B",
        "at the first slot of the global peak: live padded bytes over devices "
        "minus logical bytes of distinct live tensors",
    ),
    Objective("compute_waste_flops", "flop", "executed flops minus those of the abstract graph unsharded"),
    Objective(
        "energy_j",
        "J",
        "idle power x time + J/flop x flops + J/byte x (memory + link bytes)",
        ("idle_power_w", "joules_per_flop", "joules_per_memory_byte", "joules_per_link_byte"),
    ),
    Objective("price_usd", "USD", "price of the devices used x time", ("price_usd_per_hour",)),
)

NAMES = tuple(o.name for o in OBJECTIVES)
POSITION = {name: k for k, name in enumerate(NAMES)}


def require_objectives(names: Sequence[str], device: Device) -> tuple[Objective, ...]:
    """Return the objectives called `names`, checked against the known figures of the device.

    Raises:
        ValueError: an unknown name (near names are listed), a repeated one, or a missing device figure.
    """
    chosen = []
    for name in names:
        if name not in POSITION:
            near = get_close_matches(name, NAMES, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(NAMES)}"
            raise ValueError(f"unknown objective {name!r}; {hint}")
        objective = OBJECTIVES[POSITION[name]]
        figure = objective.missing(device)
        if figure is not None:
            raise ValueError(f"objective {name!r} cannot be computed: device {device.name!r} has no {figure}")
        if objective in chosen:
            raise ValueError(f"objective {name!r} is named twice")
        chosen.append(objective)
    if not chosen:
        raise ValueError(f"name at least one objective of {', '.join(NAMES)}")
    return tuple(chosen)
