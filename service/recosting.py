"""Stored plans that an older cost model has costed: costed again where they can be, and named where they cannot."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tapestry.costmodel.version import COST_MODEL_VERSION, cost_model_note
from tapestry.hardware.timing import TimeEstimate
from tapestry.optimizer import Plan
from tapestry.optimizer.analysis.recosting import recost
from tapestry.service.leads import time_of
from tapestry.service.store import RunRequest, StoredPlan, TenantStore, Unreadable, mesh_of
from tapestry.teg.brief import counted

Costs = list[Mapping[str, float]]
Times = list[TimeEstimate | None]


@dataclass(frozen=True)
class RecostedPlans:
    """Plans with the costs of this version of the cost model, and why others have none; both by plan id."""

    plans: Mapping[str, Plan] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)


def recost_plans(store: TenantStore, run_id: str, plans: Iterable[StoredPlan]) -> RecostedPlans:
    """Cost again those plans of a run that another version of the cost model has costed; the others are left out."""
    other = [plan for plan in plans if plan.cost_model != COST_MODEL_VERSION]
    if not other:
        return RecostedPlans()
    request = store.runs.request(run_id)
    try:
        return RecostedPlans(_recosted(store, request, other))
    except (Unreadable, ValueError):
        pass  # some plan: find out which, one by one
    found: dict[str, Plan] = {}
    failures: dict[str, str] = {}
    for plan in other:
        try:
            found |= _recosted(store, request, [plan])
        except (Unreadable, ValueError) as error:
            failures[plan.id] = " ".join(str(error).split())
    return RecostedPlans(found, failures)


def _recosted(store: TenantStore, request: RunRequest, plans: Sequence[StoredPlan]) -> dict[str, Plan]:
    graph = store.graphs.load(request.graph_id)
    loaded = store.plans.load_all([plan.key for plan in plans])
    again = recost(graph, loaded, mesh_of(request.mesh), request.options)
    return {plan.id: costed for plan, costed in zip(plans, again, strict=True)}


@dataclass(frozen=True)
class ComparableCosts:
    """The costs of the plans of frontiers and their times with errors, by run id, and notes on where these come from.

    A time is None where it is not known, or by another version of the cost model than others are.
    """

    costs: Mapping[str, Costs]
    times: Mapping[str, Times]
    notes: Sequence[str] = ()


def comparable_costs(store: TenantStore, frontiers: Mapping[str, Sequence[StoredPlan]]) -> ComparableCosts:
    """Return the costs of frontiers by one version of the cost model, with notes on which were costed again.

    Plans that another version has costed are costed again. Where that is impossible for one, all costs are those that
    are stored if these are by one version; else those of different versions stand side by side, and a note says so.
    """
    notes = model_notes(frontiers)
    if not notes:
        return _as_stored(frontiers, [])
    again = {run_id: recost_plans(store, run_id, plans) for run_id, plans in frontiers.items()}
    failures = {
        f"{run_id}/{plan_id}": why for run_id, r in again.items() for plan_id, why in r.failures.items()
    }
    if not failures:
        notes = [*(f"{note}; they are costed again here" for note in notes), *_infeasible_notes(again)]
        return _costed(frontiers, again, notes)
    first, why = next(iter(failures.items()))
    failed = f"{counted(len(failures), 'plan')} cannot be costed again ({first}: {why})"
    if len({plan.cost_model for plans in frontiers.values() for plan in plans}) == 1:
        return _as_stored(frontiers, [*notes, f"{failed}, so all figures are by that model"])
    notes.append(f"{failed}: figures of different models stand side by side and do not compare")
    return _costed(frontiers, again, notes)


def _infeasible_notes(again: Mapping[str, RecostedPlans]) -> list[str]:
    broken = {run_id: sum(not plan.feasible for plan in r.plans.values()) for run_id, r in again.items()}
    return [
        f"run {run_id}: {number:,} of these plans would break a bound of the run by this model"
        for run_id, number in broken.items()
        if number
    ]


def _as_stored(frontiers: Mapping[str, Sequence[StoredPlan]], notes: Sequence[str]) -> ComparableCosts:
    return ComparableCosts(
        {run_id: [plan.cost for plan in plans] for run_id, plans in frontiers.items()},
        {
            run_id: [time_of(plan.time, plan.verified) for plan in plans]
            for run_id, plans in frontiers.items()
        },
        notes,
    )


def _costed(
    frontiers: Mapping[str, Sequence[StoredPlan]], again: Mapping[str, RecostedPlans], notes: Sequence[str]
) -> ComparableCosts:
    """Return the costs of this version of the cost model for all plans that have them, the stored ones for others."""
    costs: dict[str, Costs] = {run_id: [] for run_id in frontiers}
    times: dict[str, Times] = {run_id: [] for run_id in frontiers}
    for run_id, plans in frontiers.items():
        for plan in plans:
            costed = again[run_id].plans.get(plan.id)
            costs[run_id].append(plan.cost if costed is None else costed.cost)
            if costed is not None:
                times[run_id].append(costed.time)
            else:
                is_mine = plan.cost_model == COST_MODEL_VERSION
                times[run_id].append(time_of(plan.time, plan.verified) if is_mine else None)
    return ComparableCosts(costs, times, notes)


def model_notes(frontiers: Mapping[str, Iterable[StoredPlan]]) -> list[str]:
    """List by run how many of its plans other versions of the cost model have costed, one line per version."""
    return [
        f"run {run_id}: {counted(number, 'plan')} {cost_model_note(version)}"
        for run_id, plans in frontiers.items()
        for version, number in sorted(Counter(plan.cost_model for plan in plans).items())
        if version != COST_MODEL_VERSION
    ]
