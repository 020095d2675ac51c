"""Rates of moves: those that a search has learned, and those of earlier ones, by kind of move and class of operator.

Used by `search` and by `service`, which stores the rates of every run and merges them to the prior of later ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.hardware import Mesh
from tapestry.hardware.layouts.native import native_named
from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import dominated_points, log_scaled
from tapestry.optimizer.placement.credits import FIRST_ODDS, SHAPE
from tapestry.optimizer.placement.search_space import PLACE_CLASSES
from tapestry.optimizer.placement.variation import RULES
from tapestry.optimizer.run.plan import Rate
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.structure.credits import FLOOR, HISTORY, Arm
from tapestry.rewrites.rules import plug_ins

# So many moves tell as much of a placement move, or of a rule, as what is known of all of them together.
PLACEMENT_TRIALS, STRUCTURAL_TRIALS = 2000.0, 10.0
# What was learned with other objectives, or on another kind of mesh, counts so much less.
OTHER_FOCUS, OTHER_MESH = 0.25, 0.1
MOST_ODDS = 10.0


class Learned(NamedTuple):
    """The knowledge of an arm that earlier searches share: how often it was applied, and its credit."""

    applied: float
    credit: float


@dataclass(frozen=True)
class Prior:
    """The knowledge of earlier searches, as far as it matters for one search; `snapshot` is its number in the store.

    Without any, all is as if nothing were known.
    """

    snapshot: int = 0
    arms: Mapping[Arm, Learned] = field(default_factory=dict)

    def placement_odds(self) -> np.ndarray:
        """Return relative odds of placement moves, of `credits.SHAPE`."""
        applied, credit = np.zeros(SHAPE), np.zeros(SHAPE)
        for (rule, name), learned in self.arms.items():
            if rule in RULES and name in PLACE_CLASSES:
                applied[RULES.index(rule), PLACE_CLASSES.index(name)] += learned.applied
                credit[RULES.index(rule), PLACE_CLASSES.index(name)] += learned.credit
        usual = np.repeat(np.array(FIRST_ODDS)[:, None] / np.mean(FIRST_ODDS), SHAPE[1], axis=1)
        mean = credit.sum() / applied.sum() if credit.sum() > 0 else 1.0
        return np.asarray((credit + PLACEMENT_TRIALS * mean * usual) / (applied + PLACEMENT_TRIALS) / mean)

    def structural_odds(self) -> dict[Arm, float]:
        """Return the odds of rules by class of operator, and of each with no class, relative to all.

        Those that nothing is known of are absent.
        """
        known = {arm: learned for arm, learned in self.arms.items() if arm[0] not in RULES}
        applied = sum(learned.applied for learned in known.values())
        credit = sum(learned.credit for learned in known.values())
        if not applied or not credit:
            return {}
        mean = credit / applied
        of_rule: defaultdict[str, list[Learned]] = defaultdict(list)
        for (rule, _), learned in known.items():
            of_rule[rule].append(learned)
        odds = {}
        for arm, learned in known.items():
            tried, gained = (sum(each) for each in zip(*of_rule[arm[0]], strict=True))
            whole = (gained + STRUCTURAL_TRIALS * mean) / (tried + STRUCTURAL_TRIALS)
            own = (learned.credit + STRUCTURAL_TRIALS * whole) / (learned.applied + STRUCTURAL_TRIALS)
            odds[arm] = float(np.clip(own / mean, FLOOR, MOST_ODDS))
            odds[arm[0], ""] = float(np.clip(whole / mean, FLOOR, MOST_ODDS))
        return odds


NO_PRIOR = Prior()


def begin_with(state: SearchState, prior: Prior) -> None:
    """Let a search that has not begun choose its moves by what earlier ones have learned.

    Rules of plug-ins that none of them has tried begin at the floor.
    """
    if not prior.arms:
        return
    state.first_odds = prior.placement_odds()
    state.structural.credits.first = prior.structural_odds()
    state.structural.credits.floored = frozenset(plug_ins().members)


def weight_of(same_mesh: bool, same_focus: bool) -> float:
    """Return how much what was learned counts on this or another kind of mesh, with these or other objectives."""
    return (1.0 if same_mesh else OTHER_MESH) * (1.0 if same_focus else OTHER_FOCUS)


def merged(rates: Iterable[tuple[Rate, float]]) -> dict[Arm, Learned]:
    """Merge the rates of several searches, each with a weight, by arm."""
    arms: defaultdict[Arm, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for rate, weight in rates:
        arms[rate.rule, rate.operator_class][0] += weight * rate.applied
        arms[rate.rule, rate.operator_class][1] += weight * rate.credit
    return {arm: Learned(*sums) for arm, sums in arms.items()}


def mesh_kind(mesh: Mesh) -> str:
    """Return the kind of mesh that what is learned is kept by: its number of axes, and whether tensors are tiled."""
    axes = sum(size > 1 for _, size in mesh.axis_sizes)
    places = "1 device" if axes == 0 else "1 axis" if axes == 1 else f"{axes} axes"
    return f"{places}, tiled" if native_named(mesh.device.layouts[0]).tiles is not None else places


def focus_of(objectives: Iterable[str]) -> str:
    """Return the objective focus that what is learned is kept by: the names of the objectives in alphabetical order."""
    return "+".join(sorted(objectives))


def rates_of(state: SearchState) -> tuple[Rate, ...]:
    """Return what a search has learned of the moves that it made, by rule and class of operator."""
    volumes = _volumes(state)
    rates = []
    counts = zip(*(array.reshape(-1).tolist() for array in state.statistics), strict=True)
    for k, (applicable, applied, improved, credit) in enumerate(counts):
        if applicable:
            arm = RULES[k // len(PLACE_CLASSES)], PLACE_CLASSES[k % len(PLACE_CLASSES)]
            rates.append(Rate(*arm, applicable, applied, improved, credit, float(volumes.get(arm, 0.0))))
    for arm, tried in sorted(state.structural.credits.counts.items()):
        gained, volume = tried.improved + tried.credit, float(volumes.get(arm, 0.0))
        rates.append(Rate(*arm, tried.applicable, tried.applied, tried.improved, gained, volume))
    return tuple(rates)


def _volumes(state: SearchState) -> dict[Arm, float]:
    """Share what the plans of the front dominate alone among the moves of their histories; the rest is the starts'."""
    if not state.variants:
        return {}
    values, owner = state.all_values()
    if not len(values):
        return {}
    mask = nondominated(values)
    front = np.flatnonzero(mask)
    dominated = dominated_points(log_scaled(values[front]))
    # A point that several plans dominate is theirs in equal shares.
    share = (dominated / np.maximum(dominated.sum(axis=0), 1)).sum(axis=1) / max(
        1, dominated.any(axis=0).sum()
    )
    firsts = np.concatenate([[0], np.cumsum([int(v.archive.size[0]) for v in state.variants])])
    volumes: defaultdict[Arm, float] = defaultdict(float)
    for row, part in zip(front, share, strict=True):
        variant = state.variants[owner[row]]
        trail = variant.archive.trail[row - firsts[owner[row]]]
        for k in np.flatnonzero(trail):
            volumes[RULES[k // len(PLACE_CLASSES)], PLACE_CLASSES[k % len(PLACE_CLASSES)]] += part * trail[k]
        left = part * max(0.0, 1.0 - float(trail.sum()))
        for arm in reversed(state.structural.credits.arms_of(variant.moves)):
            left *= HISTORY
            volumes[arm] += left
    return volumes
