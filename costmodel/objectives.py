"""The catalog of objectives, and those that plug-ins add."""

from __future__ import annotations

from functools import cache
from typing import Any

from tapestry.costmodel.expression_parser import FUNCTIONS
from tapestry.costmodel.expressions import names_in
from tapestry.costmodel.objective import QUANTITIES, Objective
from tapestry.teg.plugins import (
    Loaded,
    PlugInError,
    PlugInGroup,
    load,
    once,
    require,
    require_name,
    sequence_of,
)

GROUP = "tapestry.objectives"

OBJECTIVES: tuple[Objective, ...] = (
    Objective("time_s", "s", "makespan of one execution of the graph", "time_ticks / 1e12", "time"),
    Objective(
        "peak_memory_bytes",
        "B",
        "maximum over devices of live padded bytes, inputs included",
        "peak_memory_bytes",
        "peak memory",
    ),
    Objective(
        "device_memory_bytes",
        "B",
        "what a device has to hold: peak memory, and what the process takes beside its tensors: context, libraries' "
        "workspaces, the allocator's rounding, and buffers of collectives along each axis",
        "peak_memory_bytes + context_bytes + workspace_bytes + allocator_bytes "
        "+ communicator_bytes * communicator_count",
        "device memory",
    ),
    Objective(
        "total_memory_bytes", "B", "sum over devices of their peaks", "total_memory_bytes", "total memory"
    ),
    Objective(
        "compute_flops", "flop", "executed on all devices, replication included", "compute_flops", "compute"
    ),
    Objective(
        "peak_compute_flops",
        "flop",
        "maximum over devices of executed flops",
        "peak_compute_flops",
        "peak compute",
    ),
    Objective(
        "traffic_bytes",
        "B",
        "logical bytes received from other devices, summed over devices",
        "traffic_bytes",
        "traffic",
    ),
    Objective(
        "memory_waste_bytes",
        "B",
        "at the first slot of the global peak: live padded bytes over devices "
        "minus logical bytes of distinct live tensors",
        "memory_waste_bytes",
        "memory waste",
    ),
    Objective(
        "compute_waste_flops",
        "flop",
        "executed flops minus those of the abstract graph unsharded",
        "compute_waste_flops",
        "compute waste",
    ),
    Objective(
        "energy_j",
        "J",
        "idle power x time + J/flop x flops + J/byte x (memory + link bytes)",
        "(energy_pj + idle_power_w * (device_count * time_ticks)) * 1e-12",
        "energy",
    ),
    Objective(
        "price_usd",
        "USD",
        "price of the devices used x time",
        "price_usd_per_hour / 3600 * device_count * (time_ticks / 1e12)",
        "price",
    ),
)

NAMES = tuple(o.name for o in OBJECTIVES)


def checked_objective(offered: Any) -> Objective:
    """Check that what a plug-in provides is an objective over what is counted for every plan; return it.

    Raises:
        PlugInError: it is something else, its name already means a quantity, its expression names what is not known, or
            it is not to be minimized.
    """
    objective = require(offered, Objective)
    require_name(objective.name)
    if objective.name in QUANTITIES or objective.name in FUNCTIONS:
        raise PlugInError(f"{objective.name!r} already names a quantity of every plan", "rename it")
    unknown = [name for name in names_in(objective.term) if name not in (*QUANTITIES, *NAMES)]
    if unknown:
        raise PlugInError(
            f"its expression names {unknown[0]!r}, which is not known",
            f"use Tapestry's objectives, or {', '.join(QUANTITIES)}",
        )
    if objective.direction != "minimize":
        raise PlugInError(f"its direction is {objective.direction!r}", "let less be better: 'minimize'")
    return objective


OBJECTIVE_GROUP = PlugInGroup(
    GROUP, "objective", sequence_of(Objective), checked_objective, lambda objective: (objective.name,)
)


@once
def plug_ins() -> Loaded[Objective]:
    """Load the objectives of installed plug-ins (entry point group `tapestry.objectives`), and what was left out."""
    return load(OBJECTIVE_GROUP, NAMES)


@cache
def catalog() -> dict[str, Objective]:
    """Return all objectives by name, with those of installed plug-ins; those that were left out are not in it."""
    return {o.name: o for o in OBJECTIVES} | dict(plug_ins().members)
