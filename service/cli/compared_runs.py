"""Runs side by side: figures by one reference, what was asked for differently, and leads of the fastest plans."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tapestry.hardware.timing import PROBABILITY, TimeDifference, TimeEstimate
from tapestry.service.cli.errors import CommandError
from tapestry.service.cli.frontier import certainty_of, difference_text, unit_of
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.comparison import FrontierMetrics, compare_all, comparison_fault
from tapestry.service.mesh_differences import same_figures
from tapestry.service.presentation import title_of
from tapestry.service.recosting import ComparableCosts, comparable_costs
from tapestry.service.run_comparison import (
    common_objectives,
    history_of,
    option_differences,
    points_of,
    program_notes,
    table_differences,
)
from tapestry.service.store import Store, StoredRun
from tapestry.teg.readable import quantity


@dataclass(frozen=True)
class FastestPlan:
    """The plan of a run with the least time, by its id, and its time with the error."""

    id: str
    time: TimeEstimate

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON document."""
        return {"plan": self.id, **self.time.to_json()}


@dataclass(frozen=True)
class ComparedSide:
    """A run beside others: its metrics, its fastest plan, and by how much that leads or is behind the first run's.

    These two are None where an error is not known, the second also for the first run.
    """

    run: StoredRun
    metrics: FrontierMetrics
    fastest: FastestPlan | None
    lead: TimeDifference | None

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.run.summary.id


def compare_runs(store: Store, runs: Sequence[StoredRun], *, as_json: bool) -> None:
    """Print a comparison of runs over the objectives they have in common.

    Raises:
        CommandError: a run has no plans, or there is no common objective.
    """
    comparable = comparable_costs(store, {run.summary.id: run.frontier for run in runs})
    objectives = common_objectives(runs)
    costs = [comparable.costs[run.summary.id] for run in runs]
    if fault := comparison_fault(costs, objectives):
        raise CommandError(fault)
    metrics, reference = compare_all(costs, objectives)
    fastest = [_fastest(run, comparable) for run in runs]
    sides = [
        ComparedSide(run, found, plan, _lead(runs[0], fastest[0], run, plan) if number else None)
        for number, (run, found, plan) in enumerate(zip(runs, metrics, fastest, strict=True))
    ]
    notes = [*program_notes(runs), *comparable.notes]
    if not as_json:
        for note in notes:
            print(f"note: {note}")
        _print(sides, objectives)
        return
    document = _document(sides, objectives)
    for side, own in zip(sides, document["runs"], strict=True):
        own["points"] = points_of(side.run.frontier, comparable.costs[side.id], objectives)
        own["history"] = history_of(store, side.id, objectives, reference)
    print_json({**document, "reference": reference, "notes": notes})


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


def _lead(
    first: StoredRun, one: FastestPlan | None, second: StoredRun, other: FastestPlan | None
) -> TimeDifference | None:
    """Compare the times of the fastest plans of two runs; None if the error of either is not known."""
    if one is None or other is None:
        return None
    return one.time.difference(other.time, same_mesh=same_figures(first.mesh, second.mesh))


def _differences(sides: Sequence[ComparedSide]) -> list[str]:
    """List the differences between the runs' inputs, one line each; with any, figures compare more than the search."""
    first, *others = (side.run for side in sides)
    inputs = [
        f"{row['title'].lower()}: {' and '.join(row['values'])}"
        for row in option_differences((first, *others))
    ]
    of_run = {run.summary.id: f" of {run.summary.id}" if len(others) > 1 else "" for run in others}
    return inputs + [
        f"mesh{of_run[run.summary.id]} {table.text()}"
        for run in others
        for table in table_differences(first, run)
    ]


def _document(sides: Sequence[ComparedSide], objectives: list[str]) -> dict[str, Any]:
    first, *others = sides
    lead = sides[1].lead if len(sides) == 2 else None
    plans = [side.fastest.id for side in sides if side.fastest is not None]
    return {
        "objectives": objectives,
        "differences": _differences(sides),
        "mesh_differences": [
            {"run": side.id, **table.to_json()}
            for side in others
            for table in table_differences(first.run, side.run)
        ],
        "fastest": None if lead is None else {"plans": plans, **lead.to_json()},
        "runs": [
            {
                "run": side.id,
                "graph": side.run.summary.graph_name,
                "mesh": side.run.summary.mesh_name,
                "evaluations": side.run.summary.evaluations,
                "seconds": side.run.summary.seconds,
                "fastest": None if side.fastest is None else side.fastest.to_json(),
                "lead": None if side.lead is None else side.lead.to_json(),
                **side.metrics.to_json(),
            }
            for side in sides
        ],
    }


def _print(sides: Sequence[ComparedSide], objectives: list[str]) -> None:
    for line in _differences(sides):
        print(f"not the same: {line}")
    is_pair = len(sides) == 2
    rows: list[tuple[str, ...]] = []

    def add(title: str, texts: Sequence[str], last: str = "") -> None:
        rows.append((title, *texts, *([last] if is_pair else [])))

    def add_values(title: str, values: Sequence[float], texts: Sequence[str]) -> None:
        ratios = [_ratio(values[0], value) for value in values]
        if is_pair:
            add(title, texts, ratios[1])
        else:
            add(title, [texts[0], *map(_with_ratio, texts[1:], ratios[1:])])

    add("evaluations", [f"{side.run.summary.evaluations:,}" for side in sides])
    add("seconds", [f"{side.run.summary.seconds:.1f}" for side in sides])
    add("plans", [str(side.metrics.plans) for side in sides])
    volumes = [side.metrics.hypervolume for side in sides]
    add_values("hypervolume", volumes, [f"{value:.4f}" for value in volumes])
    for name in objectives:
        values = [side.metrics.best[name] for side in sides]
        add_values(f"least {title_of(name)}", values, [quantity(value, unit_of(name)) for value in values])
        if name == "time_s" and any(side.fastest for side in sides):
            certain = "" if sides[-1].lead is None or not is_pair else certainty_of(sides[-1].lead)
            add(
                f"its interval at {PROBABILITY:.0%}",
                [_interval_text(side.fastest) for side in sides],
                certain,
            )
    others = "the other covers" if is_pair else "others cover"
    add(f"plans {others}", [f"{side.metrics.covered:.0%}" for side in sides])
    add(
        "plans it does not" if is_pair else "plans they do not",
        [str(side.metrics.strictly_better) for side in sides],
    )
    heads = [side.id for side in sides]
    head = (
        ("", *heads, "second / first")
        if is_pair
        else ("", heads[0], *(f"{name} (/ first)" for name in heads[1:]))
    )
    print_table(head, rows, right=range(1, len(head)))
    for side in sides[1:]:
        if side.lead is not None:
            names = (f"the fastest plan of {each.id}" for each in (sides[0], side))
            print(difference_text(side.lead, *names))


def _interval_text(plan: FastestPlan | None) -> str:
    return "" if plan is None else " to ".join(quantity(end, "s") for end in plan.time.interval())


def _ratio(first: float, second: float) -> str:
    return f"{second / first:.3f}" if first else ""


def _with_ratio(text: str, ratio: str) -> str:
    return f"{text} ({ratio})" if ratio else text
