"""Views of a frontier for notebooks: an HTML table, a data frame, a figure."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Protocol

from tapestry.costmodel.objective import Objective
from tapestry.teg.brief import counted

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

NO_PANDAS = "a data frame needs pandas, which is not installed: pip install pandas"


class PlanView(Protocol):
    """A plan as a table shows it."""

    @property
    def id(self) -> str: ...
    @property
    def cost(self) -> Mapping[str, float]: ...
    @property
    def moves(self) -> Sequence[Any]: ...
    @property
    def placements(self) -> Any: ...


class FrontierView(Protocol):
    """A result as its views read it."""

    @property
    def graph(self) -> Any: ...
    @property
    def mesh(self) -> Any: ...
    @property
    def objectives(self) -> tuple[Objective, ...]: ...
    @property
    def frontier(self) -> Sequence[PlanView]: ...


def html_of(result: FrontierView) -> str:
    """Return the frontier as an HTML table, sorted by the first objective: a column per objective."""
    units = {o.name: o.unit for o in result.objectives}
    first = result.objectives[0].name
    head = (
        "plan",
        *(f"{name.removesuffix(f'_{unit}')} ({unit})" for name, unit in units.items()),
        "moves",
        "devices",
    )
    rows = [
        (plan.id, *(f"{plan.cost[name]:,.4g}" for name in units), str(len(plan.moves)), _devices(plan))
        for plan in sorted(result.frontier, key=lambda plan: (plan.cost[first], plan.id))
    ]
    title = f"{result.graph.name} on {result.mesh.name}: {counted(len(rows), 'plan')}"
    return (
        f"<table><caption>{html.escape(title)}</caption><thead>{_row('th', head)}</thead>"
        f"<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"
    )


def _row(tag: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _devices(plan: PlanView) -> str:
    return plan.placements.devices or "all"


def dataframe_of(result: FrontierView) -> Any:
    """Return the frontier as a data frame; see `Result.to_dataframe`."""
    try:
        import pandas
    except ImportError:
        raise ImportError(NO_PANDAS) from None
    rows = [{**plan.cost, "moves": len(plan.moves), "devices": _devices(plan)} for plan in result.frontier]
    return pandas.DataFrame(rows, index=pandas.Index([plan.id for plan in result.frontier], name="plan"))


def figure_of(result: FrontierView, x: str, y: str) -> Figure:
    """Draw the frontier in two costs; see `Result.plot`."""
    from plotly.graph_objects import Figure, Scatter

    names = [o.name for o in result.objectives]
    across = x or names[0]
    up = y or next((name for name in names if name != across), "")
    if not up:
        raise ValueError(f"the run has one objective, {across}; name another cost to draw it against: y=...")
    plans = sorted(result.frontier, key=lambda plan: plan.id)
    for name in (across, up):
        _require(name, plans)
    plans.sort(key=lambda plan: (plan.cost[across], plan.cost[up]))
    scatter = Scatter(
        x=[plan.cost[across] for plan in plans],
        y=[plan.cost[up] for plan in plans],
        text=[f"{plan.id}, {counted(len(plan.moves), 'move')}, devices {_devices(plan)}" for plan in plans],
        mode="markers",
    )
    figure = Figure(scatter)
    figure.update_layout(
        title=f"{result.graph.name} on {result.mesh.name}",
        xaxis_title=across,
        yaxis_title=up,
        hovermode="closest",
    )
    return figure


def _require(name: str, plans: Sequence[PlanView]) -> None:
    """Check that plans have a cost of this name.

    Raises:
        ValueError: they have none; the near ones are named.
    """
    known = list(plans[0].cost) if plans else [name]
    if name not in known:
        near = get_close_matches(name, known, n=2)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
        raise ValueError(f"plans have no cost {name!r}; {hint}")
