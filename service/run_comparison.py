"""Comparison of up to four runs: frontiers and their growth on one common scale, and what was asked for differently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.optimizer.archive.fronts import hypervolume
from tapestry.service.comparison import compare_all
from tapestry.service.mesh_differences import TableDifference, mesh_differences
from tapestry.service.presentation import moment, objective_document
from tapestry.service.recosting import comparable_costs
from tapestry.service.store import RunEvent, StoredPlan, StoredRun, TenantStore

MOST_MOMENTS = 40  # of the history of each run at which its hypervolume is computed again
EVENTS_AT_ONCE = 500


def run_comparison_document(store: TenantStore, run_ids: Sequence[str]) -> dict[str, Any]:
    """Compare runs over the objectives that all have, by one version of the cost model where that is possible.

    The hypervolume that a run stores is relative to its own first frontier. Here all are computed again relative to one
    `reference`, 1.1 times the worst of all their plans in each objective: what is beyond counts nothing.

    Raises:
        UnknownId: there is no such run.
    """
    runs = [store.runs.details(run_id) for run_id in run_ids]
    frontiers = {run_id: store.runs.frontier(run_id) for run_id in run_ids}
    comparable = comparable_costs(store, frontiers)
    names = common_objectives(runs)
    metrics, reference = compare_all([comparable.costs[run_id] for run_id in run_ids], names)
    return {
        "objectives": [objective_document(objective_called(name)) for name in names],
        "notes": [*program_notes(runs), *comparable.notes, *mesh_notes(runs)],
        "reference": reference,
        "differences": option_differences(runs),
        "runs": [
            {
                "run": run.summary.id,
                "graph": run.summary.graph_name,
                "graph_id": run.summary.graph_id,
                "mesh": run.summary.mesh_name,
                "status": run.summary.status,
                "created_at": moment(run.summary.created_at),
                "evaluations": run.summary.evaluations,
                "seconds": run.summary.seconds,
                "plans": found.plans,
                "hypervolume": found.hypervolume,
                "best": dict(found.best),
                "alone": found.strictly_better,
                "points": points_of(frontiers[run.summary.id], comparable.costs[run.summary.id], names),
                "history": history_of(store, run.summary.id, names, reference),
            }
            for run, found in zip(runs, metrics, strict=True)
        ],
    }


def common_objectives(runs: Sequence[StoredRun]) -> list[str]:
    """Return the objectives that all runs have, in the order of the first."""
    first, *others = (run.summary.options.objectives for run in runs)
    return [name for name in first if all(name in other for other in others)]


def option_differences(runs: Sequence[StoredRun]) -> list[dict[str, Any]]:
    """List the inputs in which not all runs are equal, as rows of a title and a text per run."""
    described = [dict(run.summary.options.described()) for run in runs]
    rows = [
        ("Program", [run.summary.graph_name for run in runs]),
        ("Content of the program", [run.summary.graph_id[:12] for run in runs]),
        ("Mesh", [run.summary.mesh_name for run in runs]),
        *((title, [own[title] for own in described]) for title in described[0]),
    ]
    return [{"title": title, "values": values} for title, values in rows if len(set(values)) > 1]


def table_differences(first: StoredRun, second: StoredRun) -> tuple[TableDifference, ...]:
    """Return the tables in which two meshes of one name differ, beside what options of the runs have set in them."""
    if first.summary.mesh_name != second.summary.mesh_name:
        return ()
    options = (first.summary.options, second.summary.options)
    has_launch = any(each.launch for each in options)
    has_quantile = any(each.robust for each in options)
    set_by_options = [name for name, is_set in (("launch", has_launch), ("quantile", has_quantile)) if is_set]
    return mesh_differences(first.mesh, second.mesh, set_by_options)


def program_notes(runs: Sequence[StoredRun]) -> list[str]:
    """Return a note if the runs are of several programs, whose costs may be those of different tasks."""
    programs = {run.summary.graph_id: run.summary.graph_name for run in runs}
    if len(programs) < 2:
        return []
    names = ", ".join(f"{name} ({graph_id[:12]})" for graph_id, name in programs.items())
    return [f"these runs are of different programs: {names}; a difference of costs need not be one of plans"]


def mesh_notes(runs: Sequence[StoredRun]) -> list[str]:
    """List in what the mesh of a run differs from that of the first, where both have one name; a line per table."""
    first, *others = runs
    return [
        f"run {run.summary.id}: its mesh is not that of the first: {table.text()}"
        for run in others
        for table in table_differences(first, run)
    ]


def points_of(
    plans: Sequence[StoredPlan], costs: Sequence[Mapping[str, float]], names: Sequence[str]
) -> list[dict[str, Any]]:
    """Return plans with their costs by these names, each as it is compared."""
    return [
        {"plan": plan.public_id, "cost": {name: cost[name] for name in names}}
        for plan, cost in zip(plans, costs, strict=True)
    ]


def history_of(
    store: TenantStore, run_id: str, names: Sequence[str], reference: Mapping[str, float]
) -> list[list[float]] | None:
    """Return how the hypervolume of a stored run grew; see `hypervolumes_over_time`."""
    return hypervolumes_over_time(_events(store, run_id), names, reference)


def hypervolumes_over_time(
    events: Iterable[RunEvent], names: Sequence[str], reference: Mapping[str, float]
) -> list[list[float]] | None:
    """Replay the frontier of a run from its events; return pairs of seconds of searching and hypervolume.

    None where its course is not stored, where there is no objective, or where another version of the cost model has
    costed any of its plans.
    """
    changes = list(_changes(events))
    models = {plan["cost_model"] for _, change in changes for plan in change["added"]}
    if not changes or not names or models - {COST_MODEL_VERSION}:
        return None
    last, count = len(changes) - 1, min(len(changes), MOST_MOMENTS)
    chosen = {round(k * last / max(1, count - 1)) for k in range(count)}
    corner = np.array([reference[name] for name in names])
    front, history = dict[str, list[float]](), list[list[float]]()
    for number, (seconds, change) in enumerate(changes):
        for plan_id in change["removed"]:
            front.pop(plan_id, None)
        front |= {plan["id"]: [float(plan["cost"][name]) for name in names] for plan in change["added"]}
        if number in chosen:
            values = np.array(list(front.values()))
            history.append([seconds, hypervolume(values, corner) if len(values) else 0.0])
    return history


def _changes(events: Iterable[RunEvent]) -> Iterator[tuple[float, Mapping[str, Any]]]:
    """Yield the changes of a frontier with the seconds of searching after which each was reported."""
    seconds = 0.0
    for event in events:
        if event.kind == "progress":
            seconds = float(event.data["seconds"])
        elif event.kind == "frontier":
            yield seconds, event.data


def _events(store: TenantStore, run_id: str) -> Iterator[RunEvent]:
    after = 0
    while found := store.runs.events(run_id, after, EVENTS_AT_ONCE):
        yield from found
        after = found[-1].number
