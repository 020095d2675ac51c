"""Rank correlation of objectives over a frontier's plans: highly correlated ones make a frontier uninformative."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
from scipy.stats import rankdata


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Compute Spearman's coefficient in [-1, 1], ties at their mean rank; 0 where one of both is constant.

    Source: C. Spearman, The Proof and Measurement of Association between Two Things, 1904.
    """
    a, b = rankdata(first), rankdata(second)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def largest_rank_correlation(
    costs: Sequence[Mapping[str, float]], objectives: Sequence[str]
) -> tuple[float, tuple[str, str]]:
    """Find the largest coefficient of any two objectives over these plans, and the two objectives.

    Raises:
        ValueError: fewer than two objectives.
    """
    if len(objectives) < 2:
        raise ValueError("a correlation needs two objectives")
    found = (
        (rank_correlation([c[a] for c in costs], [c[b] for c in costs]), (a, b))
        for a, b in combinations(objectives, 2)
    )
    return max(found)
