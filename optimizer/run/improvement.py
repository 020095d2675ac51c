"""An estimate of what more searching may bring: an extrapolation of the improvement of the best values so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.optimizer.run.plan import LowerBound, Progress

# Rounds without which the improvement says nothing yet of the rest.
LEAST_ROUNDS = 8
# What is reported: the improvement of another minute.
HORIZON_S = 60.0


def expected_improvement(
    history: Sequence[Progress],
    seconds: float = HORIZON_S,
    bounds: Sequence[LowerBound | None] = (),
) -> tuple[float, ...]:
    """Estimate by which share each objective's best value falls in so many more seconds of rounds like those so far.

    The logarithm of a best value is taken to fall towards its limit as `c / t`, with t the seconds since the rounds
    began. Every gain counts for `c` with the square of t, so that those of late count most; for a curve that falls so,
    `c` is exact. It is an extrapolation, not a bound: where nothing has been gained since the first round, nothing is
    expected. What `bounds` prove to be left, by objective, limits it. Empty where the rounds with plans are too few.
    """
    reports = [report for report in history if report.best]
    if len(reports) < LEAST_ROUNDS:
        return ()
    at_s = np.array([report.seconds for report in reports])
    at_s = at_s - at_s[0] + max(at_s[1] - at_s[0], 1e-9)  # the first round lasts about as long as the second
    best = np.minimum.accumulate(np.array([report.best for report in reports]), axis=0)
    shares = [_expected(at_s, best[:, j], seconds) for j in range(best.shape[1])]
    limits = [1.0 if b is None or b.gap is None else b.gap for b in bounds] or [1.0] * len(shares)
    return tuple(min(share, limit) for share, limit in zip(shares, limits, strict=True))


def _expected(at_s: np.ndarray, best: np.ndarray, seconds: float) -> float:
    """Extrapolate one best value, of rounds that ended `at_s`, `(n,)` both; return the share that it falls by."""
    if best[-1] <= 0.0:
        return 0.0
    gains = -np.diff(np.log(best))
    left = float(gains @ (at_s[1:] / at_s[-1]) ** 2)  # of gains in proportion to 1 / t**2: all that is left
    return float(-np.expm1(-left * seconds / (at_s[-1] + seconds)))
