"""Plans and results: values that a search returns and all other modules read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tapestry.costmodel.block_cost import repeated_work
from tapestry.costmodel.known_objectives import objective_called
from tapestry.costmodel.objective import Objective
from tapestry.costmodel.version import COST_MODEL_VERSION
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TimeEstimate
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.optimizer.archive.origin import PlanOrigin
from tapestry.optimizer.run.cards import plan_card, result_card
from tapestry.optimizer.run.views import dataframe_of, figure_of
from tapestry.rewrites import Move
from tapestry.teg.arguments import COUNT, NUMBER, ArgumentKind, check_arguments, optional
from tapestry.teg.brief import brief, counted, listed, shown
from tapestry.teg.faults import ArgumentError
from tapestry.teg.graph import Graph
from tapestry.teg.known_fields import known_fields
from tapestry.teg.readable import quantity
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.plan_offload import plan_offload
from tapestry.teg.sharding.plan_stages import plan_stages

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

ABOVE_ZERO = ArgumentKind("a number above 0", lambda value: NUMBER.accepts(value) and 0 < value < inf)
BUDGET = {
    "seconds": optional(ABOVE_ZERO),
    "evaluations": optional(COUNT),
    "deadline_seconds": optional(ABOVE_ZERO),
}
WORKERS_LOST = "workers lost"
# Why a search has ended, by the word for it.
REASONS = {
    "seeds": "it was asked for the first plans only",
    "budget": "its seconds or evaluations are spent",
    "deadline": "the deadline is near",
    "converged": "neither rounds nor restarts, extremes and temporary caps found anything more",
    "bound met": "the best plan is proven to be within the gap that was asked for",
    "not worth it": "another minute is expected to gain less than it costs",
    "cancelled": "it was requested to stop",
    "interrupted": "it was interrupted",
    WORKERS_LOST: "all workers of the cluster were lost, and none came back in time",
}
SHOWN_COSTS = ("time_s", "peak_memory_bytes")


@known_fields(ArgumentError)
@dataclass(frozen=True)
class Budget:
    """A limit on a search: seconds, evaluations, a deadline; with several, whichever is reached first.

    `seconds` are those of preparation and rounds. `deadline_seconds` are those of all that a caller asks for: reading
    the program, the search, and the checks and the storing where there are any.

    Raises:
        ArgumentError: none is given, they are no positive numbers, or there are others.
    """

    seconds: float | None = None
    evaluations: int | None = None
    deadline_seconds: float | None = None

    def __post_init__(self) -> None:
        given = {name: getattr(self, name) for name in BUDGET}
        if all(value is None for value in given.values()):
            raise ArgumentError("a budget needs seconds, evaluations or deadline_seconds")
        check_arguments(BUDGET, given)


@dataclass(frozen=True)
class Plan:
    """An executable plan: the rewritten graph, its placements, its history of moves and its cost.

    `moves` replay from the abstract graph: structural moves first, then placements. `cost` holds every
    objective the device has figures for, in its unit; `cost_model` is the version of the model that computed it, and
    `time` is the median time with its error; None for a plan that was stored without it. `origin` is where the search
    has the plan from; None where that is not known.
    """

    graph: Graph
    placements: Placements
    moves: tuple[Move, ...]
    cost: Mapping[str, float]
    feasible: bool
    cost_model: int = COST_MODEL_VERSION
    time: TimeEstimate | None = None
    origin: PlanOrigin | None = None

    def __repr__(self) -> str:
        costs = [f"{name}={self.cost[name]:.4g}" for name in SHOWN_COSTS if name in self.cost]
        kind = "" if self.feasible else "infeasible"
        return shown(
            "Plan", (self.id, brief(self.graph.name), *costs, counted(len(self.moves), "move"), kind)
        )

    def _repr_html_(self) -> str:
        """Show costs, and what the plan decides in words, in a notebook."""
        return plan_card(self)

    @property
    def recompute(self) -> dict[str, int] | None:
        """The work done again instead of storing results: `blocks`, `bytes` of their results, `flops`; None: none."""
        found = repeated_work(self.graph)
        return None if found is None else found._asdict()

    @property
    def offload(self) -> dict[str, int] | None:
        """The tensors on the hosts: numbers of `values` and `states`, and the `bytes` of all; None: there are none."""
        found = plan_offload(self.graph, self.placements)
        return None if found is None else found._asdict()

    @property
    def stages(self) -> dict[str, Any] | None:
        """The pipeline: `count` of stages, `schedule`, and how many `blocks` are in each part; None: there is none."""
        found = plan_stages(self.graph, self.placements)
        return None if found is None else found.to_json()

    @property
    def id(self) -> str:
        """A name derived from the plan's content: equal plans have equal ids."""
        text = json.dumps([m.to_json() for m in self.moves], sort_keys=True)
        return hashlib.sha256((self.graph.structural_hash + text).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class BoundScope:
    """The plans that a bound holds for: all placements and times of copies of so many structures.

    `views` are groupings of the mesh's sub-axes, `devices` the parts of it that work, `micro_batches` numbers of
    rounds; a plan of another structure, view or schedule order may be better.
    """

    structures: int
    views: tuple[str, ...]
    schedule_orders: tuple[str, ...]
    devices: tuple[str, ...]
    micro_batches: tuple[int, ...]

    def __str__(self) -> str:
        places = " or ".join("all devices" if part == "all" else part for part in self.devices)
        rounds = ", ".join(map(str, self.micro_batches))
        where = places if self.micro_batches == (1,) else f"{places} in {rounds} micro-batches"
        return f"{counted(self.structures, 'structure')} on {where}, each placed in every way"

    def to_json(self) -> dict[str, Any]:
        return {
            "structures": self.structures,
            "views": list(self.views),
            "schedule_orders": list(self.schedule_orders),
            "devices": list(self.devices),
            "micro_batches": list(self.micro_batches),
        }


@dataclass(frozen=True)
class LowerBound:
    """A value of an objective, in its unit, that no plan in the `scope` is below, and the best one found, if any."""

    bound: float
    best: float | None
    scope: BoundScope

    @property
    def gap(self) -> float | None:
        """The share of the best value by which it may still be too large."""
        if self.best is None:
            return None
        return max(0.0, 1.0 - self.bound / self.best) if self.best > 0 else 0.0

    def to_json(self) -> dict[str, Any]:
        return {"bound": self.bound, "best": self.best, "gap": self.gap, "scope": self.scope.to_json()}


@dataclass(frozen=True)
class Shortfall:
    """The reason why no plan is feasible: the bound that is broken, by how much, and the plan that comes nearest.

    `proven` is what plans cost at least, if that is known.
    """

    constraint: Constraint
    value: float
    nearest: Plan
    proven: LowerBound | None = None

    def __repr__(self) -> str:
        return shown("Shortfall", (str(self),))

    def __str__(self) -> str:
        bound, title = self.constraint.bound, self._objective.title or self.constraint.objective
        limit = f"{title} <= {self._quantity(bound)}"
        needs = f"the nearest plan needs {self._quantity(self.value)}{self._excess}"
        if self.proven is None:
            return f"no plan was found that satisfies {limit}: {needs}"
        least = f"at least {self._quantity(self.proven.bound)} is proven for {self.proven.scope}"
        found = "no plan satisfies" if self.is_impossible else "no plan was found that satisfies"
        return f"{found} {limit}: {needs}; {least}"

    @property
    def _objective(self) -> Objective:
        return objective_called(self.constraint.objective)

    def _quantity(self, value: float) -> str:
        return quantity(value, self.constraint.unit or self._objective.unit)

    @property
    def _excess(self) -> str:
        """The distance from the limit: a factor, or percent where it is near; nothing for a limit of zero."""
        if self.constraint.bound <= 0:
            return ""
        factor = self.value / self.constraint.bound
        if factor < 2.0:
            return f", {100.0 * (factor - 1.0):.2g} % more"
        return f", {factor:,.1f} times as much" if factor < 10.0 else f", {factor:,.0f} times as much"

    @property
    def is_impossible(self) -> bool:
        """True if it is proven that no plan of the structures that were searched keeps the bound."""
        return self.proven is not None and self.proven.bound > self.constraint.bound


@dataclass(frozen=True)
class Progress:
    """A report on a running search.

    `hypervolume` is relative to 1.1 times the worst of the first front, however often the run is resumed; `best` the
    least value of each objective so far, `fraction` the share of the budget that is spent.
    """

    phase: str
    seconds: float
    evaluations: int
    front: int
    hypervolume: float
    best: tuple[float, ...] = ()
    fraction: float = 0.0


class ReportBase(NamedTuple):
    """The figures that all reports of a run are relative to, in each of its attempts.

    `seconds` and `evaluations` are those of attempts that no later one could resume, `corner` is that of the
    hypervolume; none before there are plans.
    """

    seconds: float = 0.0
    evaluations: int = 0
    corner: np.ndarray | None = None


NOTHING_REPORTED = ReportBase()


class Rate(NamedTuple):
    """The counts of the moves of a rule on operators of a class in one search.

    `applied` of the `applicable` ones were evaluated, and `improved` of these entered the front. `credit` shares every
    improvement among the moves of its history, and `volume` the hypervolume of the last front, as shares of it.
    """

    rule: str
    operator_class: str
    applicable: int
    applied: int
    improved: int
    credit: float
    volume: float


@dataclass(frozen=True)
class Result:
    """The result of a search: the frontier (mutually non-dominated, feasible) and the statistics of the search.

    `rules` counts per rule how often it was applied and led to the front; `refused` gives the reason why a rule was not
    used any more. `started_from` counts the plans of earlier searches that it began with. `bounds` are what objectives,
    and costs with a bound, are proven to be at least, by name. `expected` is by which share the best value of each
    objective would fall in another minute, extrapolated from the improvement so far; empty after too few rounds.
    `rates` are what was learned of moves, by rule and class of operator. `stopped` is the reason why the search ended,
    one of `REASONS`.
    """

    graph: Graph
    mesh: Mesh
    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...]
    frontier: tuple[Plan, ...]
    evaluations: int
    seconds: float
    seed: int
    islands: int
    stopped: str
    timings: Mapping[str, float]
    rules: Mapping[str, tuple[int, int]]
    history: tuple[Progress, ...]
    shortfall: Shortfall | None = None
    started_from: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    compute_dtype: str | None = None
    bounds: Mapping[str, LowerBound] = field(default_factory=dict)
    expected: Mapping[str, float] = field(default_factory=dict)
    rates: tuple[Rate, ...] = ()

    def __repr__(self) -> str:
        where = f"{brief(self.graph.name)} on {brief(self.mesh.name)}"
        kinds = f"{counted(len(self.frontier), 'plan')} over {listed([o.name for o in self.objectives], 4)}"
        return shown("Result", (where, kinds, f"{self.evaluations:,} evaluations in {self.seconds:.1f} s"))

    def _repr_html_(self) -> str:
        """Show the frontier as a chart and a table in a notebook."""
        return result_card(self)

    def to_dataframe(self) -> Any:
        """Return the frontier as a pandas data frame: a row per plan, indexed by its id, a column per cost.

        `moves` counts a plan's moves, `devices` names the part of the mesh that works, `origin` the source of a plan.

        Raises:
            ImportError: pandas is not installed; the extra `pandas` brings it.
        """
        return dataframe_of(self)

    def plot(self, x: str = "", y: str = "") -> Figure:
        """Draw the frontier in two costs as a plotly figure; unless given, they are the first two objectives.

        Raises:
            ValueError: no cost of that name, or the run has one objective only and `y` is not given.
        """
        return figure_of(self, x, y)
