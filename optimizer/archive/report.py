"""Conversion of genes to plans: costs in their units, placements, and the moves that replay them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np

from tapestry.costmodel.expressions import Term, evaluate
from tapestry.costmodel.known_objectives import KnownObjectives
from tapestry.costmodel.objective import Objective
from tapestry.costmodel.time_estimates import estimate_time
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import select_subset
from tapestry.optimizer.archive.goal import Goal, new_goal
from tapestry.optimizer.archive.origin import SEARCH, SEED, PlanOrigin
from tapestry.optimizer.placement.parallelism import parallelism
from tapestry.optimizer.run.plan import LowerBound, Plan, Shortfall
from tapestry.optimizer.run.variants import SubMesh, Variant, genes_at
from tapestry.rewrites import placement_moves
from tapestry.teg.sharding.placement import Placements

LARGEST_FRONTIER = 64
TINY = 1e-300  # zeros have a logarithm too


def goal_of(
    objectives: Sequence[Objective],
    constraints: Sequence[Constraint],
    mesh: Mesh,
    epsilon: float,
    known: KnownObjectives | None = None,
) -> Goal:
    """Build the objectives and bounds as forms of a plan's integer costs; `known` describes these."""
    known = known or KnownObjectives()

    def term(objective: Objective) -> Term:
        return known.term_on(objective, mesh)

    bounds = [(term(known.named(c.objective)), c) for c in constraints]
    return new_goal(
        [term(objective) for objective in objectives],
        [(form, c.bound) for form, c in bounds if not c.is_relative],
        [(form, c.bound / 100) for form, c in bounds if c.is_relative],
        known.columns,
        epsilon,
    )


def costs_of(raw: np.ndarray, mesh: Mesh, known: KnownObjectives | None = None) -> dict[str, float]:
    """Compute every objective the device has figures for, in its unit; what is counted in whole numbers as such."""
    known = known or KnownObjectives()
    values = dict(zip(known.columns, raw.tolist(), strict=True))
    return {
        name: evaluate(known.term_on(objective, mesh), values)
        for name, objective in known.by_name.items()
        if known.missing(objective, mesh.device) is None
    }


def plan_of(variant: Variant, index: int, is_feasible: bool = True) -> Plan:
    """Build a plan from member `index` of a variant's front, all of which are feasible."""
    archive, submesh = variant.archive, variant.submesh
    genes = genes_at(archive, index)
    placements = replace(variant.space.placements(genes), devices=submesh.devices)
    return Plan(
        variant.graph,
        placements,
        (*variant.moves, *placement_moves(variant.graph, Placements(), placements)),
        costs_of(archive.raw[index], submesh.mesh, submesh.known),
        is_feasible,
        time=estimate_time(variant.space, genes),
        origin=_origin_of(variant, int(archive.digest[index]), placements),
    )


def _origin_of(variant: Variant, digest: int, placements: Placements) -> PlanOrigin:
    kind = variant.origins.get(digest, SEARCH)
    if kind != SEED:
        return PlanOrigin(kind)
    return PlanOrigin(kind, parallelism(variant.graph, placements, variant.space.mesh_shape))


def frontier_of(
    variants: Sequence[Variant], anchors: np.ndarray | None = None, limit: int = LARGEST_FRONTIER
) -> tuple[Plan, ...]:
    """Build the common front of all variants, thinned to a readable size that keeps its extremes and its volume.

    The members nearest to `anchors` `(n, m)`, values of plans that were given, stay in any case.
    """
    members = [(v, i) for v in variants for i in range(int(v.archive.size[0]))]
    values = np.concatenate([v.archive.value[: int(v.archive.size[0])] for v in variants])
    kept = [] if anchors is None else _nearest(values, anchors)
    return tuple(plan_of(*members[r]) for r in select_subset(values, limit, kept))


def _nearest(values: np.ndarray, anchors: np.ndarray) -> list[int]:
    """Find per anchor the non-dominated row of `values` that is worse by the smallest factor, if worse at all."""
    front = np.flatnonzero(nondominated(values))
    logs = np.log(values[front] + TINY)
    worst = (logs[:, None, :] - np.log(anchors + TINY)[None]).max(axis=2)
    return [] if len(front) == 0 else np.unique(front[worst.argmin(axis=0)]).tolist()


def shortfall_of(
    variants: Sequence[Variant], constraints: Sequence[Constraint], proven: Mapping[str, LowerBound]
) -> Shortfall | None:
    """Find the infeasible plan nearest to the bounds, and the bound it breaks most; None without such a plan.

    Relative bounds are given as they stand, see `current_constraints`. A bound that is `proven` to be out of reach
    comes first.
    """
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
        digest=archive.pool_digest,
    )
    plan = plan_of(replace(variant, archive=pool), i, is_feasible=False)
    shortfalls = [Shortfall(c, plan.cost[c.objective], plan, proven.get(c.objective)) for c in constraints]
    return max(shortfalls, key=lambda s: (s.is_impossible, s.constraint.excess(s.value)))


def current_constraints(constraints: Sequence[Constraint], submesh: SubMesh) -> tuple[Constraint, ...]:
    """Return the constraints with the bounds that relative ones have at the moment; without those that have none."""
    goal = submesh.goal
    bounds = iter((goal.shares * goal.best).tolist())
    found = []
    for constraint in constraints:
        bound = next(bounds) if constraint.is_relative else constraint.bound
        if isfinite(bound):
            unit = submesh.known.named(constraint.objective).unit
            found.append(Constraint(constraint.objective, bound, unit))
    return tuple(found)
