"""The plans of a search that are shown while it runs: a frontier that only improves.

A plan once shown is removed only for a shown one that is no worse in any objective. A limit on the number
shown holds newcomers back, never plans already shown. Lower is better everywhere.
"""

from __future__ import annotations

import numpy as np

from tapestry.optimizer.archive.dominance import no_worse, nondominated
from tapestry.optimizer.archive.fronts import dominated_points, log_scaled, most_volume

NOTABLE_GAIN = (
    0.005  # before the end, a better extreme is shown beyond the limit only if it is so much better
)


def publish(
    shown: np.ndarray, candidates: np.ndarray, limit: int, is_last: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Select the rows to show and the rows to remove for them: rows of `candidates` `(n, m)` and of `shown` `(k, m)`.

    Whatever shown row a candidate dominates leaves for one that dominates it; of several candidates those enter
    that replace most. Then the best of every objective enters, and free places up to `limit` are filled as
    `optimizer.archive.fronts.thin` does. At the end (`is_last`) the best of every objective enters whatever the limit,
    before that only if it is much better. The shown rows must be mutually non-dominated, and stay so.
    """
    if len(candidates) == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    shown = shown.reshape(-1, candidates.shape[1])
    new = np.flatnonzero(nondominated(candidates))
    new = new[~no_worse(shown, candidates[new]).any(axis=0)]
    if len(new) == 0:
        return new, np.zeros(0, np.int64)
    values = candidates[new]
    replaces = no_worse(values, shown)
    leaving = np.flatnonzero(replaces.any(axis=0))
    kept = np.delete(shown, leaving, axis=0)
    volume = dominated_points(log_scaled(np.concatenate([kept, values])))
    chosen = _replacements(replaces, volume[len(kept) :])
    for row in _extremes(values, np.concatenate([kept, values[chosen]])):
        if len(kept) + len(chosen) < limit or is_last or _is_notable(values[row], shown):
            chosen.append(row)
    places = min(limit - len(kept) - len(chosen), len(values) - len(chosen))
    visible = [*range(len(kept)), *(len(kept) + k for k in chosen)]
    chosen += [k - len(kept) for k in most_volume(volume, visible, places)]
    return new[chosen], leaving


def _replacements(replaces: np.ndarray, volume: np.ndarray) -> list[int]:
    """Select few rows that together replace all that any row does: most first, of equals that with most new volume."""
    wanted = replaces.any(axis=0)
    covered = np.zeros(volume.shape[1], dtype=bool)
    chosen: list[int] = []
    while wanted.any():
        count = (replaces & wanted).sum(axis=1)
        most = np.flatnonzero(count == count.max())
        best = int(most[(volume[most] & ~covered).sum(axis=1).argmax()])
        chosen.append(best)
        covered |= volume[best]
        wanted &= ~replaces[best]
    return chosen


def _extremes(values: np.ndarray, visible: np.ndarray) -> list[int]:
    """Find for each objective the row of `values` that is better at it than all visible rows, if there is one."""
    best = visible.min(axis=0, initial=np.inf)
    found = []
    for j in range(values.shape[1]):
        others = [k for k in range(values.shape[1]) if k != j]
        first = int(np.lexsort([values[:, k] for k in (*reversed(others), j)])[0])
        if values[first, j] < best[j]:
            found.append(first)
    return list(dict.fromkeys(found))


def _is_notable(row: np.ndarray, shown: np.ndarray) -> bool:
    best = shown.min(axis=0, initial=np.inf)
    return bool((row < best * (1.0 - NOTABLE_GAIN)).any())
