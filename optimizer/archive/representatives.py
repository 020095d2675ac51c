"""The plans that stand for a frontier: the knee, the fastest, the one with the smallest peak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np

from tapestry.costmodel.objective import Objective


def values_of(costs: Sequence[Mapping[str, float]], objectives: Sequence[Objective]) -> np.ndarray:
    """Build the array of objective values `(plans, objectives)`."""
    return np.array([[c[o.name] for o in objectives] for c in costs], dtype=np.float64).reshape(
        len(costs), len(objectives)
    )


class HasCost(Protocol):
    """An object with costs by objective: a plan of a search, of the store, or of a document."""

    @property
    def cost(self) -> Mapping[str, float]: ...


C = TypeVar("C", bound=HasCost)


def knee(frontier: Sequence[C], objectives: Sequence[Objective]) -> C:
    """Find the plan nearest to the ideal point, with every objective scaled to [0, 1] on a logarithmic scale.

    Raises:
        ValueError: the frontier is empty.
    """
    if not frontier:
        raise ValueError("an empty frontier has no knee")
    values = np.log(values_of([p.cost for p in frontier], objectives) + 1.0e-9)
    spread = np.maximum(values.max(axis=0) - values.min(axis=0), 1e-12)
    distance = np.linalg.norm((values - values.min(axis=0)) / spread, axis=1)
    return frontier[int(distance.argmin())]


class Identified(HasCost, Protocol):
    """An object with an id and costs by objective."""

    @property
    def id(self) -> str: ...


P = TypeVar("P", bound=Identified)


def representative_plans(frontier: Sequence[P], objectives: Sequence[Objective]) -> dict[str, P]:
    """Select the most representative plans of a frontier, by their roles: knee, fastest, smallest peak."""
    return {
        "knee": knee(frontier, objectives),
        "fastest": min(
            frontier, key=lambda plan: (plan.cost["time_s"], plan.cost["peak_memory_bytes"], plan.id)
        ),
        "smallest peak": min(
            frontier, key=lambda plan: (plan.cost["peak_memory_bytes"], plan.cost["time_s"], plan.id)
        ),
    }
