"""Views of a frontier for notebooks: a data frame, a figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from tapestry.costmodel.objective import Objective
from tapestry.teg.arguments import TEXT, check_arguments
from tapestry.teg.brief import counted
from tapestry.teg.faults import ArgumentError, near_hint

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

NO_PANDAS = "a data frame needs pandas, which is not installed: pip install pandas"


class PlanView(Protocol):
    """A plan as a table shows it."""

    @property
    def id(self) -> str: ...
    @property
    def graph(self) -> Any: ...
    @property
    def cost(self) -> Mapping[str, float]: ...
    @property
    def moves(self) -> Sequence[Any]: ...
    @property
    def placements(self) -> Any: ...
    @property
    def origin(self) -> Any: ...


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


def _devices(plan: PlanView) -> str:
    return plan.placements.devices or "all"


def dataframe_of(result: FrontierView) -> Any:
    """Return the frontier as a data frame; see `Result.to_dataframe`."""
    try:
        import pandas
    except ImportError:
        raise ImportError(NO_PANDAS) from None
    rows = [
        {
            **plan.cost,
            "moves": len(plan.moves),
            "devices": _devices(plan),
            "origin": "" if plan.origin is None else str(plan.origin),
        }
        for plan in result.frontier
    ]
    return pandas.DataFrame(rows, index=pandas.Index([plan.id for plan in result.frontier], name="plan"))


def figure_of(result: FrontierView, x: str, y: str) -> Figure:
    """Draw the frontier in two costs; see `Result.plot`."""
    from plotly.graph_objects import Figure, Scatter

    check_arguments({"x": TEXT, "y": TEXT}, {"x": x, "y": y})
    names = [o.name for o in result.objectives]
    across = x or names[0]
    up = y or next((name for name in names if name != across), "")
    if not up:
        raise ArgumentError(
            f"the run has one objective, {across}; name another cost to draw it against: y=..."
        )
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
        ArgumentError: they have none; the near ones are named.
    """
    known = list(plans[0].cost) if plans else [name]
    if name not in known:
        raise ArgumentError(f"plans have no cost {name!r}; {near_hint(name, known)}")
