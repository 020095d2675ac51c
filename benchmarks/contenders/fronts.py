"""Fronts of several contenders in one box: the share of it that each dominates, on logarithmic axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import moocore
import numpy as np

from tapestry.optimizer.archive.dominance import nondominated
from tapestry.optimizer.archive.fronts import select_subset

MOST_POINTS = 256
BEYOND_NADIR = 1.1
# What a value of zero counts as, relative to the least value above zero: zero has no logarithm.
ZERO_SHARE = 0.5


@dataclass(frozen=True)
class Box:
    """A box from the best values of fronts to 1.1 times their nadir, `(m,)` each; values below `least` count as it."""

    least: np.ndarray
    most: np.ndarray

    def share(self, front: np.ndarray) -> float:
        """Compute the share of the box, from 0 to 1, that the rows of `(n, m)` dominate."""
        if len(front) == 0:
            return 0.0
        spread = np.log(self.most) - np.log(self.least)
        scaled = (np.log(np.maximum(front, self.least)) - np.log(self.least)) / spread
        inside = scaled[(scaled < 1.0).all(axis=1)]
        if len(inside) == 0:
            return 0.0
        inside = inside[nondominated(inside)]
        return float(np.clip(moocore.hypervolume(inside, ref=np.ones(front.shape[1])), 0.0, 1.0))


def box_of(fronts: Sequence[np.ndarray]) -> Box | None:
    """Return the box of fronts `(n, m)`; None where all are empty."""
    found = [front for front in fronts if len(front)]
    if not found:
        return None
    union = np.concatenate(found)
    union = union[nondominated(union)]
    above = np.where(union > 0.0, union, np.inf).min(axis=0)
    floor = np.where(np.isfinite(above), ZERO_SHARE * above, 1.0)
    least = np.maximum(union.min(axis=0), floor)
    return Box(least, np.maximum(union.max(axis=0), least) * BEYOND_NADIR)


def thinned(front: np.ndarray, most: int = MOST_POINTS) -> np.ndarray:
    """Return the rows of `(n, m)` that dominate the most volume together, at most `most`."""
    return front[select_subset(front, most)] if len(front) else front
