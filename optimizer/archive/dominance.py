"""Pareto dominance, lower is better everywhere: of rows of arrays, and as a front that items enter one by one.

The one place that decides what is no worse than what, for the presearch, the search and what is shown of it, on values
of one `Goal` (`goal.py`); the compiled archive (`archive.py`) adds its epsilon grid. Imported by all of `optimizer`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

import moocore
import numpy as np

T = TypeVar("T")


def nondominated(values: np.ndarray) -> np.ndarray:
    """Compute the mask `(n,)` of rows of `(n, m)` that no other row dominates; of equal rows the first stays."""
    if len(values) == 0:
        return np.zeros(0, dtype=bool)
    return np.asarray(moocore.is_nondominated(values, keep_weakly=False), dtype=bool)


def no_worse(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute which rows of `a` are no worse than which of `b` in every objective: `(len(a), len(b))`."""
    mask = np.ones((len(a), len(b)), dtype=bool)
    for j in range(b.shape[1]):
        mask &= a[:, j, None] <= b[None, :, j]
    return mask


class Front(Generic[T]):
    """The items of which no other is no worse in every objective, in order of arrival."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._values: list[tuple[float, ...]] = []

    def __iter__(self) -> Iterator[T]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T, values: Sequence[float]) -> bool:
        """Let an item enter, and those leave that it is no worse than; return False if a member is no worse."""
        point = tuple(values)
        if any(_no_worse(known, point) for known in self._values):
            return False
        kept = [k for k, known in enumerate(self._values) if not _no_worse(point, known)]
        self._items = [*(self._items[k] for k in kept), item]
        self._values = [*(self._values[k] for k in kept), point]
        return True


def _no_worse(one: Sequence[float], other: Sequence[float]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
