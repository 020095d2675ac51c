"""Plans and results: values that a search returns and all other modules read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tapestry.costmodel.objectives import Objective
from tapestry.hardware.mesh import Mesh
from tapestry.optimizer.archive.constraints import Constraint
from tapestry.rewrites import Move
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements


@dataclass(frozen=True)
class Budget:
    """A limit on a search: seconds, evaluations, or whichever of both is reached first.

    Raises:
        ValueError: neither is given, or one is not positive.
    """

    seconds: float | None = None
    evaluations: int | None = None

    def __post_init__(self) -> None:
        if self.seconds is None and self.evaluations is None:
            raise ValueError("a budget needs seconds, evaluations or both")
        if (self.seconds is not None and not self.seconds > 0) or (
            self.evaluations is not None and self.evaluations < 1
        ):
            raise ValueError(
                f"a budget must be positive, not {self.seconds} seconds and {self.evaluations} evaluations"
            )


@dataclass(frozen=True)
class Plan:
    """An executable plan: the rewritten graph, its placements, its history of moves and its cost.

    `moves` replay from the abstract graph: structural moves first, then placements. `cost` holds every
    objective the device has figures for, in its unit.
    """

    graph: Graph
    placements: Placements
    moves: tuple[Move, ...]
    cost: Mapping[str, float]
    feasible: bool

    @property
    def id(self) -> str:
        """A name derived from the plan's content: equal plans have equal ids."""
        text = json.dumps([m.to_json() for m in self.moves], sort_keys=True)
        return hashlib.sha256((self.graph.structural_hash + text).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Shortfall:
    """The reason why no plan is feasible: the bound that is broken, by how much, and the plan that comes nearest."""

    constraint: Constraint
    value: float
    nearest: Plan

    def __str__(self) -> str:
        over = self.value - self.constraint.bound
        name, unit = self.constraint.objective, self.constraint.unit
        share = f" ({self.constraint.excess(self.value):.1%})" if self.constraint.bound > 0 else ""
        return (
            f"no plan satisfies {self.constraint}: the nearest needs {name} = {self.value:.6g} {unit}, "
            f"{over:.6g} {unit}{share} too much"
        )


@dataclass(frozen=True)
class Progress:
    """A report on a running search.

    `hypervolume` is relative to 1.1 times the worst of the first round's front; `best` the least value of
    each objective so far, `fraction` the share of the budget that is spent.
    """

    phase: str
    seconds: float
    evaluations: int
    front: int
    hypervolume: float
    best: tuple[float, ...] = ()
    fraction: float = 0.0


@dataclass(frozen=True)
class Result:
    """The result of a search: the frontier (mutually non-dominated, feasible) and the statistics of the search.

    `rules` counts per rule how often it was applied and led to the front; `refused` gives the reason why a rule was not
    used any more. `started_from` counts the plans of earlier searches that it began with.
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
