"""Conversion of genes to plans: costs in their units, placements, and the moves that replay them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

import numpy as np

from tapestry.costmodel.kernel_arrays import COSTS, ENERGY, TIME
from tapestry.costmodel.objectives import OBJECTIVES, POSITION, Objective
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TICKS_PER_S, idle_pj, price_usd, seconds
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import select_subset
from tapestry.optimizer.placement.island import Goal
from tapestry.optimizer.run.plan import Plan, Shortfall
from tapestry.optimizer.run.variants import Variant, genes_at
from tapestry.rewrites import placement_moves
from tapestry.teg.sharding.placement import Placements

PICO = 1e-12
LARGEST_FRONTIER = 64
TINY = 1e-300  # zeros have a logarithm too


def goal_of(
    objectives: Sequence[Objective], constraints: Sequence[Constraint], mesh: Mesh, epsilon: float
) -> Goal:
    """Build the objectives and bounds as linear forms of the kernel's integer costs."""
    return Goal(
        np.array([_form(o.name, mesh) for o in objectives]),
        np.full(len(objectives), epsilon),
        np.array([_form(c.objective, mesh) for c in constraints]).reshape(-1, COSTS),
        np.array([c.bound for c in constraints], dtype=np.float64),
    )


def _form(name: str, mesh: Mesh) -> np.ndarray:
    """Compute the weights that convert integer costs to the objective's unit."""
    form = np.zeros(COSTS)
    device, count = mesh.device, mesh.device_count
    if name == "time_s":
        form[TIME] = PICO
    elif name == "energy_j":
        form[ENERGY] = PICO
        form[TIME] = device.require("idle_power_w") * count * PICO
    elif name == "price_usd":
        form[TIME] = device.require("price_usd_per_hour") / 3600 * count / TICKS_PER_S
    else:
        form[POSITION[name]] = 1.0
    return form


def costs_of(raw: np.ndarray, mesh: Mesh) -> dict[str, float]:
    """Compute every objective the device has figures for, in its unit; bytes and flops as whole numbers."""
    cost: dict[str, float] = {}
    for objective in OBJECTIVES:
        if objective.missing(mesh.device) is not None:
            continue
        if objective.name == "time_s":
            cost[objective.name] = float(seconds(raw[TIME]))
        elif objective.name == "energy_j":
            cost[objective.name] = (
                float(raw[ENERGY] + idle_pj(mesh.device, mesh.device_count, raw[TIME])) * PICO
            )
        elif objective.name == "price_usd":
            cost[objective.name] = float(price_usd(mesh.device, mesh.device_count, raw[TIME]))
        else:
            cost[objective.name] = int(raw[POSITION[objective.name]])
    return cost


def plan_of(variant: Variant, index: int, constraints: Sequence[Constraint]) -> Plan:
    """Build a plan from member `index` of a variant's front."""
    archive, machine = variant.archive, variant.machine
    genes = genes_at(archive, index)
    placements = replace(variant.space.placements(genes), devices=machine.devices)
    cost = costs_of(archive.raw[index], machine.mesh)
    return Plan(
        variant.graph,
        placements,
        (*variant.moves, *placement_moves(variant.graph, Placements(), placements)),
        cost,
        all(cost[c.objective] <= c.bound for c in constraints),
    )


def frontier_of(
    variants: Sequence[Variant], constraints: Sequence[Constraint], anchors: np.ndarray | None = None
) -> tuple[Plan, ...]:
    """Build the common front of all variants, thinned to a readable size that keeps its extremes and its volume.

    The members nearest to `anchors` `(n, m)`, values of plans that were given, stay in any case.
    """
    members = [(v, i) for v in variants for i in range(int(v.archive.size[0]))]
    values = np.concatenate([v.archive.value[: int(v.archive.size[0])] for v in variants])
    kept = [] if anchors is None else _nearest(values, anchors)
    return tuple(plan_of(*members[r], constraints) for r in select_subset(values, LARGEST_FRONTIER, kept))


def _nearest(values: np.ndarray, anchors: np.ndarray) -> list[int]:
    """Find per anchor the non-dominated row of `values` that is worse by the smallest factor, if worse at all."""
    front = np.flatnonzero(nondominated(values))
    logs = np.log(values[front] + TINY)
    worst = (logs[:, None, :] - np.log(anchors + TINY)[None]).max(axis=2)
    return [] if len(front) == 0 else np.unique(front[worst.argmin(axis=0)]).tolist()


def shortfall_of(variants: Sequence[Variant], constraints: Sequence[Constraint]) -> Shortfall | None:
    """Find the infeasible plan nearest to the bounds, and the bound it breaks most; None without such a plan."""
    pools = [
        (float(v.archive.pool_violation[i]), n, i)
        for n, v in enumerate(variants)
        for i in range(int(v.archive.size[1]))
    ]
    if not pools:
        return None
    _, number, i = min(pools)
    variant = variants[number]
    archive = variant.archive
    pool = archive._replace(
        raw=archive.pool_raw,
        genes=archive.pool_genes,
        prefetch=archive.pool_prefetch,
        regather=archive.pool_regather,
    )
    plan = plan_of(replace(variant, archive=pool), i, constraints)
    worst = max(constraints, key=lambda c: c.excess(plan.cost[c.objective]))
    return Shortfall(worst, plan.cost[worst.objective], plan)


def values_of(costs: Sequence[Mapping[str, float]], objectives: Sequence[Objective]) -> np.ndarray:
    """Build the array of objective values `(plans, objectives)`."""
    return np.array([[c[o.name] for o in objectives] for c in costs], dtype=np.float64).reshape(
        len(costs), len(objectives)
    )


class HasCost(Protocol):
    """An object with costs by objective: a plan of a search, of the store, or of a document."""

    @property
    def cost(self) -> Mapping[str, float]: ...


C = TypeVar("C", bound=HasCost)


def knee(frontier: Sequence[C], objectives: Sequence[Objective]) -> C:
    """Find the plan nearest to the ideal point, with every objective scaled to [0, 1] on a logarithmic scale.

    Raises:
        ValueError: the frontier is empty.
    """
    if not frontier:
        raise ValueError("an empty frontier has no knee")
    values = np.log(values_of([p.cost for p in frontier], objectives) + 1.0e-9)
    spread = np.maximum(values.max(axis=0) - values.min(axis=0), 1e-12)
    distance = np.linalg.norm((values - values.min(axis=0)) / spread, axis=1)
    return frontier[int(distance.argmin())]


class Identified(HasCost, Protocol):
    """An object with an id and costs by objective."""

    @property
    def id(self) -> str: ...


P = TypeVar("P", bound=Identified)


def representative_plans(frontier: Sequence[P], objectives: Sequence[Objective]) -> dict[str, P]:
    """Select the most representative plans of a frontier, by their roles: knee, fastest, smallest peak."""
    return {
        "knee": knee(frontier, objectives),
        "fastest": min(
            frontier, key=lambda plan: (plan.cost["time_s"], plan.cost["peak_memory_bytes"], plan.id)
        ),
        "smallest peak": min(
            frontier, key=lambda plan: (plan.cost["peak_memory_bytes"], plan.cost["time_s"], plan.id)
        ),
    }
