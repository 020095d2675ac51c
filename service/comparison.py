"""Comparison of frontiers: the hypervolume of each, and the share of its plans that the others cover."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tapestry.optimizer.archive.fronts import hypervolume

Costs = Sequence[Mapping[str, float]]
MARGIN = 1.1


@dataclass(frozen=True)
class FrontierMetrics:
    """The metrics of one of the frontiers that are compared.

    `hypervolume` is relative to 1.1 times the worst of all in every objective; `best` the least value of each
    objective; `covered` the share of its plans for which another has one that is no worse in everything;
    `strictly_better` the number of its plans that beat or are not comparable to every plan of the others.
    """

    plans: int
    hypervolume: float
    best: Mapping[str, float]
    covered: float
    strictly_better: int

    def to_json(self) -> dict[str, Any]:
        return {
            "plans": self.plans,
            "hypervolume": self.hypervolume,
            "best": dict(self.best),
            "covered": self.covered,
            "strictly_better": self.strictly_better,
        }


def compare(
    first: Costs, second: Costs, objectives: Sequence[str]
) -> tuple[FrontierMetrics, FrontierMetrics]:
    """Compare the plans of two frontiers over `objectives`; lower is better.

    Raises:
        ValueError: an empty frontier, or no objective.
    """
    if fault := comparison_fault((first, second), objectives):
        raise ValueError(fault)
    (one, other), _ = compare_all((first, second), objectives)
    return one, other


def comparison_fault(frontiers: Sequence[Costs], objectives: Sequence[str]) -> str:
    """Return why frontiers cannot be compared; empty: they can."""
    if not objectives:
        return "the runs have no objective in common"
    return "" if all(frontiers) else "a run without plans cannot be compared"


def compare_all(
    frontiers: Sequence[Costs], objectives: Sequence[str]
) -> tuple[tuple[FrontierMetrics, ...], dict[str, float]]:
    """Compare the plans of each frontier with those of all others; return the metrics, and the reference by objective.

    A frontier without plans has no hypervolume, and neither has any without objectives.
    """
    values = [
        np.array([[cost[name] for name in objectives] for cost in costs], dtype=float).reshape(
            len(costs), len(objectives)
        )
        for costs in frontiers
    ]
    worst = np.concatenate([np.zeros((1, len(objectives))), *values]).max(axis=0)
    reference = MARGIN * worst + 1e-12
    metrics = tuple(
        _side(mine, np.concatenate([*values[:k], *values[k + 1 :]]), objectives, reference)
        for k, mine in enumerate(values)
    )
    return metrics, dict(zip(objectives, map(float, reference), strict=True))


def _side(
    mine: np.ndarray, theirs: np.ndarray, objectives: Sequence[str], reference: np.ndarray
) -> FrontierMetrics:
    if not len(mine) or not objectives:
        return FrontierMetrics(len(mine), 0.0, {}, 0.0, 0)
    no_worse = np.asarray((theirs[None, :, :] <= mine[:, None, :]).all(axis=2))
    beaten = np.asarray(no_worse.any(axis=1))
    best = mine.min(axis=0)
    return FrontierMetrics(
        len(mine),
        hypervolume(mine, reference),
        {name: float(value) for name, value in zip(objectives, best, strict=True)},
        float(beaten.mean()),
        int((~beaten).sum()),
    )
