"""`tapestry compare`: two stored runs side by side."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import Any

from tapestry.hardware.timing import PROBABILITY, TimeDifference, TimeEstimate
from tapestry.service.cli.errors import OK, CommandError
from tapestry.service.cli.frontier import certainty_of, difference_text, unit_of
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.cli.searching import open_store
from tapestry.service.comparison import FrontierMetrics, compare
from tapestry.service.mesh_differences import same_figures
from tapestry.service.presentation import title_of
from tapestry.service.recosting import ComparableCosts, comparable_costs
from tapestry.service.run_comparison import common_objectives, option_differences, table_differences
from tapestry.service.store import StoredRun, StoreError
from tapestry.teg.readable import quantity


def run(arguments: Namespace) -> int:
    """Compare the frontiers of two runs over the objectives they have in common."""
    store = open_store(arguments.database_url)
    try:
        first, second = store.runs.find(arguments.first), store.runs.find(arguments.second)
        frontiers = {found.summary.id: found.frontier for found in (first, second)}
        comparable = comparable_costs(store, frontiers)
    except StoreError as error:
        raise CommandError(str(error)) from error
    finally:
        store.close()
    objectives = common_objectives((first, second))
    try:
        costs = comparable.costs
        sides = compare(costs[first.summary.id], costs[second.summary.id], objectives)
    except ValueError as error:
        raise CommandError(str(error)) from error
    fastest = (_fastest(first, comparable), _fastest(second, comparable))
    if arguments.json:
        print_json({**_document(first, second, objectives, sides, fastest), "notes": list(comparable.notes)})
    else:
        for note in comparable.notes:
            print(f"note: {note}")
        _print(first, second, objectives, sides, fastest)
    return OK


@dataclass(frozen=True)
class FastestPlan:
    """The plan of a run with the least time, by its id, and its time with the error."""

    id: str
    time: TimeEstimate

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        return {"plan": self.id, **self.time.to_json()}


Fastest = tuple[FastestPlan | None, FastestPlan | None]


def _fastest(found: StoredRun, comparable: ComparableCosts) -> FastestPlan | None:
    """Return the plan of a run with the least time as it is compared; None without one whose error is known."""
    costs, times = comparable.costs[found.summary.id], comparable.times[found.summary.id]
    timed = [
        (cost["time_s"], plan.id, time)
        for plan, cost, time in zip(found.frontier, costs, times, strict=True)
        if "time_s" in cost
    ]
    _, plan_id, time = min(timed, key=lambda each: each[:2], default=(0.0, "", None))
    return None if time is None else FastestPlan(plan_id, time)


def _differences(first: StoredRun, second: StoredRun) -> list[str]:
    """List the differences between two runs' inputs, one line each; with any, figures compare more than the search."""
    inputs = [
        f"{row['title'].lower()}: {' and '.join(row['values'])}"
        for row in option_differences((first, second))
    ]
    return inputs + [f"mesh {table.text()}" for table in table_differences(first, second)]


def _document(
    first: StoredRun,
    second: StoredRun,
    objectives: list[str],
    sides: tuple[FrontierMetrics, FrontierMetrics],
    fastest: Fastest,
) -> dict[str, Any]:
    found = _difference(first, second, fastest)
    plans = [each.id for each in fastest if each is not None]
    return {
        "objectives": objectives,
        "differences": _differences(first, second),
        "mesh_differences": [table.to_json() for table in table_differences(first, second)],
        "fastest": None if found is None else {"plans": plans, **found.to_json()},
        "runs": [
            {
                "run": found.summary.id,
                "graph": found.summary.graph_name,
                "mesh": found.summary.mesh_name,
                "evaluations": found.summary.evaluations,
                "seconds": found.summary.seconds,
                "fastest": None if each is None else each.to_json(),
                **side.to_json(),
            }
            for found, side, each in zip((first, second), sides, fastest, strict=True)
        ],
    }


def _difference(first: StoredRun, second: StoredRun, fastest: Fastest) -> TimeDifference | None:
    """Compare the times of the fastest plans of two runs; None if the error of either is not known."""
    one, other = fastest
    if one is None or other is None:
        return None
    return one.time.difference(other.time, same_mesh=same_figures(first.mesh, second.mesh))


def _print(
    first: StoredRun,
    second: StoredRun,
    objectives: list[str],
    sides: tuple[FrontierMetrics, FrontierMetrics],
    fastest: Fastest,
) -> None:
    one, other = sides
    difference = _difference(first, second, fastest)
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
        if name == "time_s" and any(fastest):
            certain = "" if difference is None else certainty_of(difference)
            rows.append((f"its interval at {PROBABILITY:.0%}", *map(_interval_text, fastest), certain))
    rows.append(("plans the other covers", f"{one.covered:.0%}", f"{other.covered:.0%}", ""))
    rows.append(("plans it does not", str(one.strictly_better), str(other.strictly_better), ""))
    print_table(("", first.summary.id, second.summary.id, "second / first"), rows, right=(1, 2, 3))
    if difference is not None:
        names = (f"the fastest plan of {found.summary.id}" for found in (first, second))
        print(difference_text(difference, *names))


def _interval_text(plan: FastestPlan | None) -> str:
    return "" if plan is None else " to ".join(quantity(end, "s") for end in plan.time.interval())


def _ratio(first: float, second: float) -> str:
    return f"{second / first:.3f}" if first else ""
