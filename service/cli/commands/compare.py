"""`tapestry compare`: two stored runs side by side."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from tapestry.hardware.timing import TimeDifference
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.frontier import difference_text, unit_of
from tapestry.service.cli.output import print_json, print_table, quantity
from tapestry.service.cli.searching import open_store
from tapestry.service.comparison import FrontierMetrics, compare
from tapestry.service.mesh_differences import TableDifference, mesh_differences
from tapestry.service.presentation import title_of
from tapestry.service.recosting import comparable_costs
from tapestry.service.store import StoredPlan, StoredRun, StoreError
from tapestry.service.verdicts import time_of


def run(arguments: Namespace) -> int:
    """Compare the frontiers of two runs over the objectives they have in common."""
    store = open_store(arguments.database_url)
    try:
        first, second = store.runs.find(arguments.first), store.runs.find(arguments.second)
        frontiers = {found.summary.id: found.frontier for found in (first, second)}
        costs, notes = comparable_costs(store, frontiers)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    objectives = [
        name for name in first.summary.options.objectives if name in second.summary.options.objectives
    ]
    try:
        sides = compare(costs[first.summary.id], costs[second.summary.id], objectives)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if arguments.json:
        print_json({**_document(first, second, objectives, sides), "notes": notes})
    else:
        for note in notes:
            print(f"note: {note}")
        _print(first, second, objectives, sides)
    return OK


def _differences(first: StoredRun, second: StoredRun) -> list[str]:
    """List the differences between two runs' inputs, one line each; with any, figures compare more than the search."""
    one, other = first.summary, second.summary
    inputs = [
        (what, a, b)
        for what, a, b in (
            ("graph", one.graph_name, other.graph_name),
            ("graph content", one.graph_id[:12], other.graph_id[:12]),
            ("mesh", one.mesh_name, other.mesh_name),
        )
        if a != b
    ]
    return [
        f"{what.lower()}: {a} and {b}" for what, a, b in (*inputs, *one.options.differences(other.options))
    ] + [f"mesh {table.text()}" for table in _mesh_differences(first, second)]


def _mesh_differences(first: StoredRun, second: StoredRun) -> tuple[TableDifference, ...]:
    """Return the tables in which two meshes of one name differ, beside what options of the runs have set in them."""
    if first.summary.mesh_name != second.summary.mesh_name:
        return ()
    options = (first.summary.options, second.summary.options)
    has_launch = any(each.launch for each in options)
    has_quantile = any(each.robust for each in options)
    set_by_options = [name for name, is_set in (("launch", has_launch), ("quantile", has_quantile)) if is_set]
    return mesh_differences(first.mesh, second.mesh, set_by_options)


def _document(
    first: StoredRun, second: StoredRun, objectives: list[str], sides: tuple[FrontierMetrics, FrontierMetrics]
) -> dict[str, Any]:
    return {
        "objectives": objectives,
        "differences": _differences(first, second),
        "mesh_differences": [table.to_json() for table in _mesh_differences(first, second)],
        "fastest": _fastest(first, second),
        "runs": [
            {
                "run": found.summary.id,
                "graph": found.summary.graph_name,
                "mesh": found.summary.mesh_name,
                "evaluations": found.summary.evaluations,
                "seconds": found.summary.seconds,
                **side.to_json(),
            }
            for found, side in zip((first, second), sides, strict=True)
        ],
    }


def _fastest(first: StoredRun, second: StoredRun) -> dict[str, Any] | None:
    """Compare the times of the fastest plans of two runs; None if either was not verified."""
    sides = [_fastest_plan(found) for found in (first, second)]
    times = [None if plan is None else time_of(plan.verified) for plan in sides]
    if times[0] is None or times[1] is None:
        return None
    found = times[0].difference(times[1], same_mesh=first.mesh == second.mesh)
    return {"plans": [plan.id for plan in sides if plan is not None], **found.to_json()}


def _fastest_plan(found: StoredRun) -> StoredPlan | None:
    timed = [plan for plan in found.frontier if "time_s" in plan.cost]
    return min(timed, key=lambda plan: (plan.cost["time_s"], plan.id), default=None)


def _print(
    first: StoredRun, second: StoredRun, objectives: list[str], sides: tuple[FrontierMetrics, FrontierMetrics]
) -> None:
    one, other = sides
    for line in _differences(first, second):
        print(f"not the same: {line}")
    rows = [
        ("evaluations", *(f"{found.summary.evaluations:,}" for found in (first, second)), ""),
        ("seconds", *(f"{found.summary.seconds:.1f}" for found in (first, second)), ""),
        ("plans", str(one.plans), str(other.plans), ""),
        (
            "hypervolume",
            f"{one.hypervolume:.4f}",
            f"{other.hypervolume:.4f}",
            _ratio(one.hypervolume, other.hypervolume),
        ),
    ]
    for name in objectives:
        a, b = one.best[name], other.best[name]
        rows.append(
            (
                f"least {title_of(name)}",
                quantity(a, unit_of(name)),
                quantity(b, unit_of(name)),
                _ratio(a, b),
            )
        )
    rows.append(("plans the other covers", f"{one.covered:.0%}", f"{other.covered:.0%}", ""))
    rows.append(("plans it does not", str(one.strictly_better), str(other.strictly_better), ""))
    print_table(("", first.summary.id, second.summary.id, "second / first"), rows, right=(1, 2, 3))
    if fastest := _fastest(first, second):
        names = (f"the fastest plan of {found.summary.id}" for found in (first, second))
        print(difference_text(TimeDifference.from_json(fastest), *names))


def _ratio(first: float, second: float) -> str:
    return f"{second / first:.3f}" if first else ""
