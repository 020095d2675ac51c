"""Plans side by side: costs, what each decides as a whole, and the blocks about which they decide differently."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tapestry.hardware.timing import PROBABILITY, TimeDifference, TimeEstimate
from tapestry.service.cli.frontier import difference_text, interval_text, unit_of
from tapestry.service.cli.output import print_json, print_table
from tapestry.service.plan_comparison import plan_comparison_document
from tapestry.service.presentation import title_of
from tapestry.service.store import Store, StoredPlan
from tapestry.teg.brief import counted
from tapestry.teg.readable import quantity, scale_of

GROUPS_SHOWN = 30
NO_BLOCK = "no such block"


def compare_plans(store: Store, plans: Sequence[StoredPlan], *, as_json: bool) -> None:
    """Print a comparison of plans."""
    document = plan_comparison_document(store, [plan.public_id for plan in plans])
    if as_json:
        print_json(document)
        return
    for note in document["notes"]:
        print(f"note: {note}")
    names = _names(document["plans"])
    _print_costs(document["plans"], names)
    print()
    rows = [
        (row["title"], *row["values"], "differs" if row["differs"] else "") for row in document["parameters"]
    ]
    print_table(("decision", *names, ""), rows)
    print()
    _print_blocks(document["decisions"], names)


def _names(plans: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return short names: ids of plans, with their runs where they are of several."""
    runs = {plan["run"] for plan in plans}
    return [plan["plan"] if len(runs) == 1 else f"{plan['run']}/{plan['plan']}" for plan in plans]


def _print_costs(plans: Sequence[Mapping[str, Any]], names: Sequence[str]) -> None:
    first = plans[0]
    wanted = dict.fromkeys(name for plan in plans for name in (*plan["objectives"], *plan["cost"]))
    rows = []
    for name in wanted:
        values = [plan["cost"].get(name) for plan in plans]
        texts = ["" if value is None else quantity(value, unit_of(name)) for value in values]
        ratios = [_ratio(values[0], value) for value in values[1:]]
        rows.append(
            (
                title_of(name),
                texts[0],
                *(cell for pair in zip(texts[1:], ratios, strict=True) for cell in pair),
            )
        )
        if name == "time_s" and any(plan["time"] for plan in plans):
            intervals = list(map(_interval, plans))
            rows.append(
                ("  its interval", intervals[0], *(cell for text in intervals[1:] for cell in (text, "")))
            )
    heads = [head for name in names[1:] for head in (name, "/ first")]
    print_table(("cost", names[0], *heads), rows, right=range(1, 1 + len(rows[0])))
    if any(plan["time"] for plan in plans):
        print(f"intervals hold the time with a probability of {PROBABILITY:.0%}")
    for plan, name in zip(plans[1:], names[1:], strict=True):
        if plan["lead"] is not None:
            print(difference_text(TimeDifference.from_json(plan["lead"]), names[0], name))
        elif first["graph_id"] != plan["graph_id"]:
            print(f"{name} is of another program than {names[0]}")


def _interval(plan: Mapping[str, Any]) -> str:
    if plan["time"] is None:
        return ""
    estimate = TimeEstimate.from_json(plan["time"])
    factor, unit = scale_of([estimate.seconds], "s")
    return f"{interval_text(estimate, factor)} {unit}"


def _ratio(first: float | None, second: float | None) -> str:
    return f"{second / first:.3f}" if first and second is not None else ""


def _print_blocks(decisions: Mapping[str, Any], names: Sequence[str]) -> None:
    equal, blocks, groups = decisions["equal"], decisions["blocks"], decisions["groups"]
    print(f"about {equal:,} of {counted(blocks, 'block')} all decide the same")
    if not groups:
        return
    rows = []
    for group in groups[:GROUPS_SHOWN]:
        many = f" ({len(group['sites'])} blocks)" if len(group["sites"]) > 1 else ""
        rows.append((f"{group['name']}{many}", *_decision_texts(group["values"])))
    print_table(("blocks that differ", *names), rows)
    if len(groups) > GROUPS_SHOWN:
        print(f"and {counted(len(groups) - GROUPS_SHOWN, 'other group')} of blocks: --json has all")


def _decision_texts(values: Sequence[Mapping[str, Any] | None]) -> Iterator[str]:
    """Yield what each plan decides about a block, as far as not all decide the same."""
    known = [value for value in values if value is not None]
    members = dict.fromkeys(name for value in known for name in value)
    differing = [name for name in members if any(value.get(name) != known[0].get(name) for value in known)]
    for value in values:
        if value is None:
            yield NO_BLOCK
        else:
            shown = differing or list(value)
            yield (
                "; ".join(_member_text(name, value[name]) for name in shown if name in value)
                or "as by default"
            )


def _member_text(name: str, value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if name == "strategy" else f"{name} {text}"
