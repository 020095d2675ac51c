"""Printing of a frontier: one line per plan, a column per objective, and the results of its checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tapestry.costmodel.known_objectives import objective_called
from tapestry.service.cli.output import column, paint, print_table, quantity
from tapestry.service.presentation import title_of
from tapestry.service.verdicts import FAILED, UNCHECKED, UNTRUSTED, verdict_of


def unit_of(objective: str) -> str:
    """Return the unit of an objective; empty for a stored one that is no longer known."""
    return objective_called(objective).unit


def print_frontier(
    plans: Sequence[Mapping[str, Any]],
    objectives: Sequence[str],
    marks: Mapping[str, Sequence[str]],
) -> None:
    """Print the plans (documents of `service.presentation`), fastest first; `marks` by plan id."""
    shown = [name for name in objectives if all(name in plan["cost"] for plan in plans)]
    first = "time_s" if plans and "time_s" in plans[0]["cost"] else shown[0]
    ordered = sorted(plans, key=lambda plan: (plan["cost"][first], plan["id"]))
    headers, columns = ["plan"], [[plan["id"] for plan in ordered]]
    for name in shown:
        unit, texts = column([plan["cost"][name] for plan in ordered], unit_of(name))
        headers.append(f"{title_of(name)} {unit}".rstrip())
        columns.append(texts)
    headers += ["moves", "devices", "verified", ""]
    columns.append([str(plan["move_count"]) for plan in ordered])
    columns.append([plan["devices"] for plan in ordered])
    columns.append([checks_of(plan["verified"]) for plan in ordered])
    columns.append([", ".join(marks.get(plan["id"], ())) for plan in ordered])
    print_table(headers, list(zip(*columns, strict=True)), right=range(1, len(shown) + 2))


def checks_of(verified: Mapping[str, Any] | None) -> str:
    """Summarize the checks of a plan in a few words."""
    verdict = verdict_of(verified)
    if verified is None or verdict == UNCHECKED:
        return "no"
    if verdict == FAILED:
        return paint("FAILED", "red")
    if verdict == UNTRUSTED:
        return paint("NOT TRUSTED", "red")
    return "proven, counted, executed" if verified["values"]["executed"] else "proven, counted"


def memory_text(terms: Mapping[str, float]) -> str:
    """Format the terms of what a device holds: `1.50 GiB peak memory + 300 MiB context`."""
    named = ((name.removesuffix("_bytes").replace("_", " "), size) for name, size in terms.items())
    return " + ".join(f"{quantity(size, 'B')} {name}" for name, size in named)
