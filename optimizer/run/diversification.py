"""Epochs apart from a variant's front, for when the front stands still: other first plans, and other goals for a while.

They take turns: a temporary cap on one objective, a restart from new seeds, an extreme of one objective. Each has an
archive of its own, whose plans are inserted into the front of the variant afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tapestry.optimizer.archive.archive import Archive
from tapestry.optimizer.archive.fronts import set_parent_weights
from tapestry.optimizer.archive.goal import Goal, insert_plans_of, narrowed
from tapestry.optimizer.archive.origin import SEED
from tapestry.optimizer.placement.seeds import genes_rows, random_seeds
from tapestry.optimizer.run.first_plans import insert_rows
from tapestry.optimizer.run.variants import Variant, empty_archive

RESTART_SEEDS = 128
COARSE = 1.0
# Rounds of each turn: every other one is of its kind, and ordinary rounds between follow up what it finds.
TURN_ROUNDS = 8


class Excursion(NamedTuple):
    """The archive and the goal that an epoch apart begins with, and the plans that were evaluated for it."""

    archive: Archive
    goal: Goal
    evaluations: int


def excursion(turn: int, variant: Variant, most: int, rng: np.random.Generator) -> Excursion:
    """Begin an epoch of the kind whose turn it is, with at most `most` evaluations.

    With a single objective, or without a plan that keeps the bounds, all kinds are restarts.
    """
    value = variant.archive.value[: int(variant.archive.size[0])]
    varied = [j for j in range(value.shape[1]) if len(value) and value[:, j].max() > value[:, j].min() > 0]
    kind = KINDS[turn % len(KINDS)] if len(varied) > 1 else restart
    found = kind(variant, varied, most, rng)
    set_parent_weights(found.archive)
    return found


def restart(variant: Variant, varied: list[int], most: int, rng: np.random.Generator) -> Excursion:
    """Begin at seeds by propagation in random orders of preference, with the run's own goal."""
    space, goal = variant.space, variant.submesh.goal.own_best()
    archive = empty_archive(goal, space)
    rows = random_seeds(space, variant.search, min(RESTART_SEEDS, most), rng)
    insert_rows(variant, genes_rows(rows, space.space), SEED, archive, goal)
    return Excursion(archive, goal, len(rows))


def extreme(variant: Variant, varied: list[int], most: int, rng: np.random.Generator) -> Excursion:
    """Begin at the front, and minimize one of the objectives: by the others, plans differ from a factor of two on."""
    goal, one = variant.submesh.goal.own_best(), int(rng.choice(varied))
    epsilon = np.where(np.arange(len(goal.epsilon)) == one, goal.epsilon, COARSE)
    return _apart(variant, goal._replace(epsilon=epsilon))


def cap(variant: Variant, varied: list[int], most: int, rng: np.random.Generator) -> Excursion:
    """Begin at the front, and minimize one objective with another capped between two neighbors in it, and this one too.

    Wide gaps between neighbors are more likely to be chosen.
    """
    other, capped = (int(j) for j in rng.choice(varied, size=2, replace=False))
    steps = np.log(np.unique(variant.archive.value[: int(variant.archive.size[0]), capped]))
    gaps = np.diff(steps)
    at = int(rng.choice(len(gaps), p=gaps / gaps.sum()))
    limit = float(np.exp((steps[at] + steps[at + 1]) / 2))
    return _apart(variant, narrowed(variant.submesh.goal, [other, capped], [(capped, limit)]))


def _apart(variant: Variant, goal: Goal) -> Excursion:
    archive = empty_archive(goal, variant.space)
    insert_plans_of(archive, variant.archive, goal)
    return Excursion(archive, goal, 0)


KINDS: tuple[Callable[[Variant, list[int], int, np.random.Generator], Excursion], ...] = (
    cap,
    restart,
    extreme,
)
