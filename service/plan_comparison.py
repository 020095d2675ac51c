"""Comparison of up to four stored plans: costs, what they decide as a whole and block by block, and leads in time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from tapestry.service.leads import time_of
from tapestry.service.mesh_differences import same_figures
from tapestry.service.plan_differences import decision_differences, parameter_rows
from tapestry.service.presentation import shown_plan_document
from tapestry.service.recosting import model_notes
from tapestry.service.store import StoredPlan, TenantStore


def plan_comparison_document(store: TenantStore, plan_ids: Sequence[str]) -> dict[str, Any]:
    """Compare plans; `lead` compares the time of the first with that of each.

    Raises:
        UnknownId: there is no such plan.
    """
    plans = [store.plans.get(plan_id) for plan_id in plan_ids]
    runs = [store.runs.details(plan.run_id) for plan in plans]
    of_run: dict[str, list[StoredPlan]] = defaultdict(list)
    for plan in plans:
        of_run[plan.run_id].append(plan)
    return {
        "notes": model_notes(of_run),
        "plans": [
            {
                **shown_plan_document(plan),
                "run": run.summary.id,
                "graph": run.summary.graph_name,
                "graph_id": run.summary.graph_id,
                "mesh": run.summary.mesh_name,
                "objectives": list(run.summary.options.objectives),
                "lead": None
                if plan is plans[0]
                else time_difference(plans[0], plan, same_mesh=same_figures(runs[0].mesh, run.mesh)),
            }
            for plan, run in zip(plans, runs, strict=True)
        ],
        "parameters": parameter_rows(plans),
        "decisions": decision_differences([plan.placements or {} for plan in plans]),
    }


def time_difference(first: StoredPlan, second: StoredPlan, *, same_mesh: bool) -> dict[str, Any] | None:
    """Compare the times of two plans; None where one has no error, or another version of the cost model."""
    one, other = time_of(first.time, first.verified), time_of(second.time, second.verified)
    if one is None or other is None or first.cost_model != second.cost_model:
        return None
    return one.difference(other, same_mesh=same_mesh).to_json()
