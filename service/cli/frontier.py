"""Printing of a frontier: one line per plan, a column per objective, and the results of its checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapestry.costmodel.known_objectives import objective_called
from tapestry.hardware.timing import PROBABILITY, TimeDifference, TimeEstimate
from tapestry.optimizer.archive.origin import SEARCH, PlanOrigin
from tapestry.optimizer.run.plan import REASONS
from tapestry.service.cli.output import paint, print_table
from tapestry.service.presentation import stages_text, title_of
from tapestry.service.verdicts import FAILED, UNCHECKED, UNTRUSTED, verdict_of
from tapestry.teg.brief import counted
from tapestry.teg.readable import column, quantity, scale_of

CLASSES_SHOWN = 3
LEAST_SHARE = 1e-4  # of an expected improvement that is shown


def unit_of(objective: str) -> str:
    """Return the unit of an objective; empty for a stored one that is no longer known."""
    return objective_called(objective).unit


def print_frontier(
    plans: Sequence[Mapping[str, Any]],
    objectives: Sequence[str],
    marks: Mapping[str, Sequence[str]],
    robust: float | None = None,
) -> None:
    """Print the plans (documents of `service.presentation`), fastest first; `marks` by plan id.

    Where the search ranked plans by a quantile of the time, `robust`, the median is beside it. Plans that the fastest
    one leads within the error are marked so.
    """
    shown = [name for name in objectives if all(name in plan["cost"] for plan in plans)]
    first = "time_s" if plans and "time_s" in plans[0]["cost"] else shown[0]
    ordered = sorted(plans, key=lambda plan: (plan["cost"][first], plan["id"]))
    headers, columns = ["plan"], [[plan["id"] for plan in ordered]]
    for name in shown:
        unit, texts = column([plan["cost"][name] for plan in ordered], unit_of(name))
        is_quantile = name == "time_s" and robust is not None
        headers.append(f"{title_of(name)} {unit}".rstrip() + (f" at {robust:g}" if is_quantile else ""))
        columns.append(texts)
        estimates = [_time(plan) for plan in ordered] if name == "time_s" else []
        if any(estimates):
            factor = scale_of([plan["cost"][name] for plan in ordered], "s")[0]
            if is_quantile:
                headers.append("median")
                columns.append([f"{each.seconds / factor:#.3g}" if each else "" for each in estimates])
            headers.append(f"{PROBABILITY:.0%}")
            columns.append([interval_text(each, factor) if each else "" for each in estimates])
    headers.append("moves")
    columns.append([str(plan["move_count"]) for plan in ordered])
    if any(plan["micro_batches"] > 1 for plan in ordered):
        headers.append("micro-batches")
        columns.append([str(plan["micro_batches"]) for plan in ordered])
    if any(plan["stages"] for plan in ordered):
        headers.append("stages")
        columns.append([stages_text(plan["stages"]) for plan in ordered])
    if any(plan["recompute"] for plan in ordered):
        headers.append("computed again")
        columns.append(
            [counted(plan["recompute"]["blocks"], "block") if plan["recompute"] else "" for plan in ordered]
        )
    if any(plan["offload"] for plan in ordered):
        headers.append("on the host")
        columns.append(
            [quantity(plan["offload"]["bytes"], "B") if plan["offload"] else "" for plan in ordered]
        )
    if any(map(origin_text, ordered)):
        headers.append("origin")
        columns.append([origin_text(plan) for plan in ordered])
    at = len(headers)
    headers += ["devices", "verified", ""]
    columns.append([plan["devices"] for plan in ordered])
    columns.append([checks_of(plan["verified"]) for plan in ordered])
    columns.append([", ".join((*marks.get(plan["id"], ()), *_lead_marks(plan))) for plan in ordered])
    print_table(
        headers, list(zip(*columns, strict=True)), right=[k for k in range(1, at) if headers[k] != "origin"]
    )


def origin_text(plan: Mapping[str, Any]) -> str:
    """Format where a plan's document says that it comes from: `seed: data parallel 8`; empty if the search found it."""
    origin = plan["origin"]
    return "" if origin is None or origin["kind"] == SEARCH else str(PlanOrigin.from_json(origin))


def _time(plan: Mapping[str, Any]) -> TimeEstimate | None:
    return None if plan["time"] is None else TimeEstimate.from_json(plan["time"])


def _lead_marks(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the mark of a plan that is behind the fastest, but not by more than the error."""
    lead = plan["lead"]
    return ("within the error",) if lead and lead["seconds"] <= 0 and lead["within_error"] else ()


def interval_text(estimate: TimeEstimate, factor: float) -> str:
    """Format the interval of a time in a unit of so many seconds: `2.10 to 2.55`."""
    return " to ".join(f"{end / factor:#.3g}" for end in estimate.interval())


def time_lines(estimate: TimeEstimate) -> Iterator[str]:
    """Yield lines that say how certain a time is, and what of it is the least certain."""
    low, high = (quantity(end, "s") for end in estimate.interval())
    yield f"the median time is {quantity(estimate.seconds, 's')}"
    yield f"it is {low} to {high} with a probability of {PROBABILITY:.0%}; least certain are"
    ordered = sorted(estimate.classes.items(), key=lambda item: (-item[1].spread_s, item[0]))
    for name, each in ordered[:CLASSES_SHOWN]:
        yield f"  {quantity(each.seconds, 's')} of {name}, with an error of {each.error:.0%}"


def difference_text(found: TimeDifference, first: str, second: str) -> str:
    """Format how the times of two plans differ, with the error, and on what the lead rests."""
    if not found.seconds:
        return f"{first} and {second} take the same time"
    faster, slower = (first, second) if found.seconds > 0 else (second, first)
    size, error = quantity(abs(found.seconds), "s"), quantity(found.error_s, "s")
    certain = f"{certainty_of(found)} of the model"
    return (
        f"{faster} is faster than {slower} by {size} (standard error {error}), {certain}: with a probability of "
        f"{found.probability:.0%}; its lead rests on {found.rests_on}"
    )


def certainty_of(found: TimeDifference) -> str:
    """Return whether a difference can be told from none."""
    return "within the error" if found.is_within_error else "beyond the error"


def lead_lines(plans: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield how the fastest plan and the next one differ in time, and how many others are within the error."""
    compared = [plan for plan in plans if plan["lead"] is not None]
    if not compared:
        return
    fastest = min(compared, key=lambda plan: (plan["time"]["seconds"], plan["id"]))
    yield lead_text(fastest)
    within = sum(map(bool, map(_lead_marks, compared)))
    if within > 1:
        yield f"{counted(within, 'plan')} are behind it by no more than the error of the model"


def lead_text(plan: Mapping[str, Any]) -> str:
    """Format the lead of a plan, from its document."""
    lead = plan["lead"]
    return difference_text(TimeDifference.from_json(lead), plan["id"], lead["other"])


def bound_lines(bounds: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield how near each objective's best plan is to what is proven, from the document of the bounds."""
    for name, bound in bounds.items():
        if bound["gap"] is None:
            continue
        least = f"{title_of(name)} is at least {quantity(bound['bound'], unit_of(name))}"
        yield (
            f"proven: {least}, {bound['gap']:.1%} below the best plan"
            if bound["gap"] >= 5e-4
            else (f"proven: {least}, which the best plan reaches")
        )


def ending_line(stopped: str, expected: Mapping[str, float]) -> str:
    """Say why a search has ended and what another minute would bring, an extrapolation; empty if nothing is known."""
    why = f"the search ended because {REASONS[stopped]}" if stopped in REASONS else ""
    lower = [f"{title_of(name)} by {share:.2%}" for name, share in expected.items() if share >= LEAST_SHARE]
    what = f"lower {', '.join(lower)}" if lower else "change no objective by as much as 0.01%"
    more = f"as the best values improved so far, another minute would {what}" if expected else ""
    return "; ".join(filter(None, (why, more)))


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
