"""The service's comparisons of runs, and of plans, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tapestry.client.records import CostedPlan, DifferenceRecord, ObjectiveRecord, Record


@dataclass(frozen=True, repr=False)
class ComparedRun(Record):
    """A run beside others: its figures are by the reference and the version of the cost model that all have.

    `best` are the least values by objective; `alone` counts the plans that no other run covers; `points` are its plans
    with their costs. `history` are pairs of seconds and hypervolume; None where its course is not stored.
    """

    run: str
    graph: str
    graph_id: str
    mesh: str
    status: str
    created_at: datetime
    evaluations: int
    seconds: float
    plans: int
    hypervolume: float
    best: Mapping[str, float]
    alone: int
    points: tuple[Mapping[str, Any], ...]
    history: tuple[tuple[float, ...], ...] | None

    def __repr__(self) -> str:
        return f"ComparedRun({self.run}, {self.plans} plans, hypervolume {self.hypervolume:.4f})"


@dataclass(frozen=True, repr=False)
class RunComparison(Record):
    """Runs beside each other, over the objectives that all have.

    `differences` are what was asked for differently, each a `title` with `values` by run; `reference` is the corner of
    all hypervolumes, by objective.
    """

    objectives: tuple[ObjectiveRecord, ...]
    notes: tuple[str, ...]
    reference: Mapping[str, float]
    differences: tuple[Mapping[str, Any], ...]
    runs: tuple[ComparedRun, ...]

    def __repr__(self) -> str:
        return f"RunComparison({', '.join(run.run for run in self.runs)})"


@dataclass(frozen=True, repr=False)
class ComparedPlan(CostedPlan):
    """A plan beside others, with its run, program and mesh.

    `lead` compares the time of the first plan with that of this one; None for the first, or where that is not known.
    """

    run: str
    graph: str
    graph_id: str
    mesh: str
    objectives: tuple[str, ...]
    lead: DifferenceRecord | None


@dataclass(frozen=True)
class DecisionGroup(Record):
    """Blocks about which not all plans decide the same: those of equal layers are one group.

    `values` are the placements by plan; None where a plan has no such block.
    """

    name: str
    sites: tuple[str, ...]
    values: tuple[Mapping[str, Any] | None, ...]


@dataclass(frozen=True, repr=False)
class DecisionComparison(Record):
    """The numbers of `blocks` of all plans, and of those about which all decide the same (`equal`); others by group."""

    blocks: int
    equal: int
    groups: tuple[DecisionGroup, ...]

    def __repr__(self) -> str:
        return f"DecisionComparison({self.equal} of {self.blocks} blocks equal, {len(self.groups)} groups)"


@dataclass(frozen=True, repr=False)
class PlanComparison(Record):
    """Plans beside each other: costs, what each decides as a whole, and the blocks about which they decide differently.

    `parameters` are decisions about a plan as a whole, each a `title` with `values` by plan, and whether it `differs`.
    """

    notes: tuple[str, ...]
    plans: tuple[ComparedPlan, ...]
    parameters: tuple[Mapping[str, Any], ...]
    decisions: DecisionComparison

    def __repr__(self) -> str:
        return f"PlanComparison({', '.join(plan.id for plan in self.plans)})"
