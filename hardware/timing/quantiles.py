"""Quantiles of times: by what factor a time that errs may be longer than predicted, with a given probability."""

from __future__ import annotations

from functools import lru_cache
from math import exp
from statistics import NormalDist


@lru_cache(maxsize=65536)
def quantile_factor(quantile: float | None, error: float) -> float:
    """Return the quantile in (0, 1) of a log-normal time over its median; 1 for None.

    `error` is the standard deviation of the time's logarithm.
    """
    return 1.0 if quantile is None else exp(NormalDist().inv_cdf(quantile) * error)
