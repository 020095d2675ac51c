"""Pure array functions on fronts: merging archives, crowding distance, hypervolume. Lower is better everywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

import moocore
import numpy as np
from deap import base, tools

from tapestry.costmodel.compiled import njit
from tapestry.optimizer.archive.archive import Archive, insert, insert_infeasible
from tapestry.optimizer.archive.dominance import nondominated

EXACT_HYPERVOLUME_OBJECTIVES = 5
EXACT_HYPERVOLUME_POINTS = 128
SPREAD_POINTS = 8192


@njit()
def merge(target, source, epsilon):
    """Insert all plans of `source` into `target`, in order; return how many plans entered the front."""
    entered = 0
    for i in range(source.size[0]):
        if insert(
            target,
            source.value[i],
            epsilon,
            source.raw[i],
            source.genes[i],
            source.prefetch[i],
            source.regather[i],
            source.digest[i],
        ):
            target.trail[target.size[0] - 1] = source.trail[i]
            entered += 1
    for i in range(source.size[1]):
        insert_infeasible(
            target,
            source.pool_violation[i],
            source.pool_raw[i],
            source.pool_genes[i],
            source.pool_prefetch[i],
            source.pool_regather[i],
            source.pool_digest[i],
        )
    return entered


class Fitness(base.Fitness):  # type: ignore[misc]
    """The objectives of a plan as DEAP sees them, all minimized."""

    def __init__(self, values: Sequence[float] | np.ndarray) -> None:
        self.weights = (-1.0,) * len(values)
        super().__init__(tuple(values))


def crowding_weights(values: np.ndarray) -> np.ndarray:
    """Compute the weight `(n,)` of each member of a front `(n, m)` as a parent: extremes and sparse regions first.

    Crowding distances are NSGA-II's, by DEAP, on logarithms of the objectives.
    """
    members = [SimpleNamespace(fitness=Fitness(v)) for v in np.log(np.maximum(values, 0.0) + 1e-12)]
    tools.emo.assignCrowdingDist(members)
    distance = np.array([member.fitness.crowding_dist for member in members])
    finite = distance[np.isfinite(distance)]
    middle = float(np.median(finite)) if len(finite) and np.median(finite) > 0 else 1.0
    return np.asarray(np.clip(np.where(np.isfinite(distance), distance / middle, 4.0), 0.25, 4.0))


def set_parent_weights(
    archive: Archive, weigh: Callable[[np.ndarray], np.ndarray] = crowding_weights
) -> None:
    """Set the weight of each front member as a parent of the next epoch's moves.

    Raises:
        ValueError: `weigh` does not give every member a weight that is finite and above zero.
    """
    n = int(archive.size[0])
    if n == 0:
        return
    weights = np.asarray(weigh(archive.value[:n].copy()), dtype=np.float64)
    if weights.shape != (n,) or not (np.isfinite(weights) & (weights > 0)).all():
        raise ValueError(f"toolbox.weigh must give each of {n} members a finite weight above zero")
    archive.weight[:n] = weights


def hypervolume(
    values: np.ndarray, reference: np.ndarray, exact_points: int = EXACT_HYPERVOLUME_POINTS
) -> float:
    """Compute the share of the box `[0, reference]` that the rows of `(n, m)` dominate.

    Exact up to five objectives and so many points, else by quasi-random sampling (deterministic).
    """
    inside = values[(values < reference).all(axis=1)] / reference
    if len(inside) == 0:
        return 0.0
    ones = np.ones(values.shape[1])
    inside = inside[nondominated(inside)]
    if values.shape[1] <= EXACT_HYPERVOLUME_OBJECTIVES and len(inside) <= exact_points:
        return float(moocore.hypervolume(inside, ref=ones))
    return float(moocore.hv_approx(inside, ref=ones, nsamples=16384))


def select_subset(values: np.ndarray, limit: int, kept: Sequence[int] = ()) -> list[int]:
    """Select rows of the non-dominated front of `(n, m)`, at most `limit`, sorted by the first objective.

    `kept` rows of the front first, however many, then the best of every objective, then greedily the row that
    dominates most of what is not dominated yet, on evenly spread points of the front's box in logarithmic scale.
    """
    rows = np.flatnonzero(nondominated(values))
    if len(rows) > limit:
        scaled = log_scaled(values[rows])
        first = np.flatnonzero(np.isin(rows, kept)).tolist()
        chosen = list(dict.fromkeys([*first, *(int(k) for k in scaled.argmin(axis=0))]))
        chosen = chosen[: max(limit, len(first))]
        rows = rows[[*chosen, *most_volume(dominated_points(scaled), chosen, limit - len(chosen))]]
    return sorted(rows.tolist(), key=lambda r: tuple(values[r]))


def log_scaled(values: np.ndarray) -> np.ndarray:
    """Scale rows of `(n, m)` to the box they span, `[0, 1]` per objective, on a logarithmic scale."""
    logs = np.log(values + 1e-9)
    return np.asarray((logs - logs.min(axis=0)) / np.maximum(logs.max(axis=0) - logs.min(axis=0), 1e-12))


def dominated_points(scaled: np.ndarray) -> np.ndarray:
    """Compute which evenly spread points of the unit box each row of `(n, m)` dominates: `(n, points)`."""
    points = spread_points(SPREAD_POINTS, scaled.shape[1])
    mask = np.ones((len(scaled), len(points)), dtype=bool)
    for j in range(scaled.shape[1]):
        mask &= scaled[:, j, None] <= points[None, :, j]
    return mask


def most_volume(dominated: np.ndarray, chosen: Sequence[int], count: int) -> list[int]:
    """Select `count` more rows of `dominated` `(n, points)`, one by one that which adds most to those `chosen`."""
    covered = dominated[list(chosen)].any(axis=0)
    taken = list(chosen)
    for _ in range(count):
        gain = (dominated & ~covered).sum(axis=1)
        gain[taken] = -1
        taken.append(int(gain.argmax()))
        covered |= dominated[taken[-1]]
    return taken[len(chosen) :]


def spread_points(count: int, dims: int) -> np.ndarray:
    """Generate evenly spread points of the unit box `(count, dims)`.

    Additive recurrence of the generalized golden ratio (Roberts, The unreasonable effectiveness of quasirandom
    sequences, 2018).
    """
    ratio = 2.0
    for _ in range(64):
        ratio = (1.0 + ratio) ** (1.0 / (dims + 1))
    steps = ratio ** -np.arange(1, dims + 1)
    return np.asarray((0.5 + np.arange(count)[:, None] * steps) % 1.0)
