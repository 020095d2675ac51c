"""Lower bounds of objectives, proven by duality, that no plan of the structures which a search kept can beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tapestry.costmodel.kernel_arrays import PEAK, TIME
from tapestry.costmodel.plan_space import Genes
from tapestry.optimizer.archive.goal import Goal
from tapestry.optimizer.exact.additive import AdditiveCosts, Weights
from tapestry.optimizer.exact.bounds import cost_bounds
from tapestry.optimizer.exact.trws import solve
from tapestry.optimizer.run.plan import BoundScope, LowerBound
from tapestry.optimizer.run.variants import Variant

CLIMBS = 40
ROUNDING = 1e-9  # of sums in floating point, relatively


class _Covered(NamedTuple):
    """A variant with the least values of the goal's forms over its space `(forms,)`, and those found `(forms,)`."""

    variant: Variant
    least: np.ndarray
    found: np.ndarray


def lower_bounds(
    variants: Sequence[Variant],
    names: Sequence[str],
    may_go_on: Callable[[], bool],
    proven: Mapping[int, float] | None = None,
) -> dict[str, LowerBound]:
    """Bound the objectives and bounded costs that `names` lists, in the order of the goal's forms.

    The first variants of each part of the mesh, view and order are covered, by fewer climbs of the bound of time once
    `may_go_on` does not say so any more; the others only while it does. A name whose form is not a sum of costs has no
    bound. `proven` are bounds of the first objective that are known already, by the number of a variant.
    """
    covered, proven = list[_Covered](), proven or {}
    for variant in _first_of_each_submesh(variants):
        covered.append(_cover(variant, len(names), CLIMBS if may_go_on() else 0))
    known = {id(each.variant) for each in covered}
    for variant in variants:
        if id(variant) not in known and may_go_on():
            covered.append(_cover(variant, len(names), CLIMBS))
    for each in covered:
        each.least[0] = max(each.least[0], proven.get(each.variant.number, -np.inf))
    if not covered:
        return {}
    least = np.min([each.least for each in covered], axis=0)
    found = np.min([each.found for each in covered], axis=0)
    scope = _scope([each.variant for each in covered])
    bounds = {
        name: LowerBound(float(a), float(b) if np.isfinite(b) else None, scope)
        for name, a, b in zip(
            names, np.where(least > found, least * (1 - ROUNDING), least), found, strict=True
        )
        if np.isfinite(a)
    }
    return {name: bounds[name] for name in dict.fromkeys(names) if name in bounds}


def first_bound(variant: Variant) -> float:
    """Bound the first objective over one variant's plans; minus infinity where it is not a sum of costs."""
    return float(_cover(variant, 1, CLIMBS).least[0])


def _first_of_each_submesh(variants: Sequence[Variant]) -> list[Variant]:
    found: dict[int, Variant] = {}
    for variant in variants:
        found.setdefault(id(variant.submesh), variant)
    return list(found.values())


def _cover(variant: Variant, forms: int, climbs: int) -> _Covered:
    space, goal, archive = variant.space, variant.submesh.goal, variant.archive
    costs = AdditiveCosts(space.space)
    plans, pool = archive.raw[: int(archive.size[0])], archive.pool_raw[: int(archive.size[1])]
    raws, genes = (plans, archive.genes) if len(plans) else (pool, archive.pool_genes)
    if len(raws):
        fastest, leanest = raws[int(raws[:, TIME].argmin())], genes[int(raws[:, PEAK].argmin())]
    else:
        solution = solve(costs.problem(Weights(resident=1.0, passing=1.0)))
        leanest = costs.genes(solution.labels)
        nothing = np.zeros(space.edge_count, np.int64)
        fastest = space.evaluate(Genes(leanest, nothing, nothing))
    least = cost_bounds(costs, space.state, fastest, leanest, climbs)
    values = np.array([_value(goal, form, least) for form in range(forms)])
    found = [min((_value(goal, form, raw) for raw in plans), default=np.inf) for form in range(forms)]
    return _Covered(variant, values, np.array(found))


def _value(goal: Goal, form: int, raw: np.ndarray) -> float:
    """Return a form of integer costs; minus infinity where it is a program, which need not rise with them."""
    if goal.program_start[form] < goal.program_start[form + 1]:
        return -np.inf
    return float(goal.constants[form] + goal.weights[form] @ raw)


def _scope(variants: Sequence[Variant]) -> BoundScope:
    def distinct(values: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(values))

    return BoundScope(
        len({variant.structure for variant in variants}),
        distinct([_view_text(variant) for variant in variants]),
        distinct([variant.submesh.schedule_order for variant in variants]),
        distinct([_place_text(variant) for variant in variants]),
        tuple(dict.fromkeys(v.submesh.rounds.count if v.submesh.rounds else 1 for v in variants)),
    )


def _place_text(variant: Variant) -> str:
    devices, stages = variant.submesh.devices or "all", variant.submesh.stages
    return devices if stages is None else f"{stages} of {devices}"


def _view_text(variant: Variant) -> str:
    return " x ".join("*".join(axes) for axes in variant.submesh.view.axes) or "one device"
