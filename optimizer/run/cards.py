"""The cards of plans and results in notebooks: costs with units, decisions in words, the frontier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.objective import Objective
from tapestry.optimizer.analysis.split_words import (
    offload_in_words,
    percent,
    recomputation_in_words,
    rounds_in_words,
    split_names,
    stages_in_words,
)
from tapestry.optimizer.archive.representatives import representative_plans
from tapestry.optimizer.run.frontier_chart import ChartAxis, ChartPoint, frontier_chart, roles_by_id
from tapestry.optimizer.run.plan_colors import PlanColors
from tapestry.optimizer.run.views import FrontierView, PlanView
from tapestry.teg.brief import brief, counted, enumerated
from tapestry.teg.flops import flops_by_block
from tapestry.teg.graph import Graph
from tapestry.teg.graph_card import pictures
from tapestry.teg.html_card import Html, card, chip, figures, legend, paragraph, picture, table
from tapestry.teg.html_card import folded as folded_part
from tapestry.teg.readable_html import column, quantity
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.placement import Placements

MOST_PLANS = 20  # in the table of a frontier
FIRST_COSTS = ("time_s", "peak_memory_bytes")


class CheckedPlan(PlanView, Protocol):
    """A plan as its card shows it."""

    @property
    def feasible(self) -> bool: ...
    @property
    def time(self) -> Any: ...


class SearchView(FrontierView, Protocol):
    """A result as its card shows it."""

    @property
    def evaluations(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def stopped(self) -> str: ...
    @property
    def shortfall(self) -> Any: ...


def plan_card(plan: CheckedPlan) -> str:
    """Return the card of a plan as HTML: costs in readable units, what it decides in words, and what is known of it."""
    named = [objective_called(name) for name in plan.cost]
    rows = [(_title(each), quantity(plan.cost[each.name], each.unit), each.description) for each in named]
    feasible = (
        chip("feasible", True, "it keeps all bounds of its search")
        if plan.feasible
        else chip("infeasible", False, "it breaks a bound of its search, or does not fit in memory")
    )
    unverified = chip(
        "not verified", None, "tapestry.verify proves its sharding and counts its memory and traffic"
    )
    return card(
        f"Plan {plan.id}",
        f"of {brief(plan.graph.name)}: {counted(len(plan.moves), 'move')}, devices {plan.placements.devices or 'all'}",
        (
            figures(_headline(plan)),
            *map(paragraph, decisions_in_words(plan.graph, plan.placements)),
            *_diagram(plan),
            table("Costs", ("cost", "value", "what it is"), rows, (1,)),
        ),
        (feasible, unverified),
    )


def _diagram(plan: CheckedPlan) -> list[Html]:
    """Return the folded diagram of a plan that splits anything or has stages, in the colors of that."""
    colors = PlanColors(plan.graph, plan.placements)
    if not colors.names:
        return []
    drawn = [legend(colors.legend), *pictures(plan.graph, colors.class_of)]
    return [folded_part(f"Diagram: {colors.title.lower()}", drawn)]


def _headline(plan: CheckedPlan) -> Iterator[tuple[str, str]]:
    for name in FIRST_COSTS:
        if name in plan.cost:
            each = objective_called(name)
            yield _title(each), quantity(plan.cost[name], each.unit)
    if plan.time is not None:
        low, high = plan.time.interval()
        yield "time, 90 % interval", f"{quantity(low, 's')} to {quantity(high, 's')}"
    if plan.origin is not None:
        yield "origin", str(plan.origin)


def _title(objective: Objective) -> str:
    return objective.title or objective.name


def decisions_in_words(graph: Graph, placements: Placements) -> list[str]:
    """Describe what a plan decides: splits over mesh axes, stages, rounds, what is computed again or waits."""
    bounded = with_boundary(graph, placements)
    work = list(zip(graph.blocks, map(float, flops_by_block(graph)), strict=True))
    used = dict.fromkeys(
        axis for block, _ in work for split in bounded.of(block).strategy.splits for axis in split.axes
    )
    names = {axis: axis.rpartition(".")[0] or axis for axis in used}
    parts = []
    for axis in dict.fromkeys(names.values()):
        shares = split_names(graph, bounded, work, names, axis)
        texts = [f"{name} ({percent(share)} of the work)" for name, share in shares]
        parts += [f"over {axis}: {enumerated(texts)}"] if texts else []
    is_one = bool(placements.devices) and all(part.endswith(":1") for part in placements.devices.split(","))
    whole = "One device computes everything." if is_one else "Every device computes everything."
    splits = f"Split {'; '.join(parts)}." if parts else whole
    order = placements.schedule_order
    sentences = (
        splits,
        f"Blocks run in the schedule order {order}." if order != "program" else "",
        stages_in_words(placements),
        rounds_in_words(placements),
        recomputation_in_words(graph),
        offload_in_words(graph, placements),
    )
    return [sentence for sentence in sentences if sentence]


def result_card(result: SearchView) -> str:
    """Return the card of a result as HTML: a chart of two costs and a table of the plans, sorted by the first."""
    frontier = result.frontier
    summary = [
        ("evaluations", f"{result.evaluations:,}"),
        ("search", quantity(result.seconds, "s")),
        ("ended", result.stopped),
    ]
    parts = [figures(summary)]
    if frontier:
        plans = representative_plans(frontier, result.objectives)
        roles = roles_by_id({role: plan.id for role, plan in plans.items()})
        parts += [*_chart(result, roles), _table(result, roles)]
    elif result.shortfall is not None:
        parts.append(paragraph(str(result.shortfall)))
    return card(
        f"{brief(result.graph.name)} on {brief(result.mesh.name)}",
        f"{counted(len(frontier), 'plan')} over {enumerated([_title(each) for each in result.objectives])}",
        parts,
    )


def _chart(result: SearchView, roles: Mapping[str, str]) -> list[Html]:
    """Draw the first two objectives, or the only one against another cost; nothing where there is none."""
    plans = result.frontier
    names = dict.fromkeys((*(each.name for each in result.objectives), *FIRST_COSTS))
    chosen = [objective_called(name) for name in names if all(name in plan.cost for plan in plans)][:2]
    if len(chosen) < 2:
        return []
    across, up = chosen
    points = [ChartPoint(p.id, p.cost[across.name], p.cost[up.name], roles.get(p.id, "")) for p in plans]
    x = ChartAxis.of(_title(across), across.unit, [point.x for point in points])
    y = ChartAxis.of(_title(up), up.unit, [point.y for point in points])
    name = f"{counted(len(points), 'plan')}: {x.title} and {y.title}"
    legend = [role for role in ("fastest", "knee", "smallest peak") if role in roles.values()]
    return [picture(frontier_chart(name, points, x, y), f"Frontier; larger points: {', '.join(legend)}")]


def _table(result: SearchView, roles: Mapping[str, str]) -> Html:
    """Return the plans in one unit per column: the first, and those with a role."""
    objectives: Sequence[Objective] = result.objectives
    first = objectives[0].name
    plans = sorted(result.frontier, key=lambda plan: (plan.cost[first], plan.id))
    shown = [plan for k, plan in enumerate(plans) if k < MOST_PLANS or plan.id in roles]
    columns = [column([plan.cost[each.name] for plan in shown], each.unit) for each in objectives]
    heads = [
        f"{_title(each)} ({unit})" if unit else _title(each)
        for each, (unit, _) in zip(objectives, columns, strict=True)
    ]
    rows = [
        (
            plan.id,
            roles.get(plan.id, ""),
            *(texts[k] for _, texts in columns),
            f"{len(plan.moves):,}",
            plan.placements.devices or "all",
            "" if plan.origin is None else str(plan.origin),
        )
        for k, plan in enumerate(shown)
    ]
    count = len(objectives)
    more = f"; {len(shown):,} of {len(plans):,} are shown" if len(shown) < len(plans) else ""
    return table(
        f"Plans by {_title(objectives[0])}{more}",
        ("plan", "role", *heads, "moves", "devices", "origin"),
        rows,
        range(2, count + 3),
    )
