"""What gathers and scatters share: which dimensions run together, what positions mean, rows in one layout."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.operators.reading import canonical_axis


class Indexing(NamedTuple):
    """Positions along dimension `axis` of a table of some rank; `aligned` (table dim, indices dim) run together.

    What is gathered (and what a scatter takes as updates) has the table's dimensions in order, `axis`
    replaced by the `free` dimensions of the indices: those that are not aligned.
    """

    axis: int
    aligned: tuple[tuple[int, int], ...]
    free: tuple[int, ...]
    rank: int

    @property
    def rest(self) -> tuple[int, ...]:
        """The table's dimensions that the positions say nothing about."""
        together = {self.axis, *(t for t, _ in self.aligned)}
        return tuple(k for k in range(self.rank) if k not in together)

    @property
    def gathered_rank(self) -> int:
        """The rank of what is gathered."""
        return self.rank - 1 + len(self.free)

    def place(self, dim: int) -> int:
        """Where a table dimension other than `axis` is in what is gathered."""
        return dim if dim < self.axis else dim - 1 + len(self.free)

    def partner(self, dim: int) -> int | None:
        """The table dimension that runs together with a dimension of the indices."""
        return next((t for t, k in self.aligned if k == dim), None)

    def shape(self, table: Sequence[int], indices: Sequence[int]) -> tuple[int, ...]:
        """The shape of what is gathered."""
        return (*table[: self.axis], *(indices[k] for k in self.free), *table[self.axis + 1 :])

    def flat_table(self, table: np.ndarray) -> np.ndarray:
        """A table as `(aligned, axis, rest)`."""
        return _grouped(table, ([t for t, _ in self.aligned], [self.axis], self.rest))

    def flat_positions(self, positions: np.ndarray) -> np.ndarray:
        """Indices as `(aligned, free)`."""
        return _grouped(positions, ([k for _, k in self.aligned], self.free))

    def flat_gathered(self, gathered: np.ndarray) -> np.ndarray:
        """What is gathered as `(aligned, free, rest)`."""
        return _grouped(gathered, self._gathered_groups)

    def gathered(self, flat: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """`(aligned, free, rest)` at the shape of what is gathered."""
        return _ungrouped(flat, self._gathered_groups, shape)

    def table(self, flat: np.ndarray, shape: Sequence[int]) -> np.ndarray:
        """`(aligned, axis, rest)` at the shape of the table."""
        return _ungrouped(flat, ([t for t, _ in self.aligned], [self.axis], self.rest), shape)

    @property
    def _gathered_groups(self) -> Sequence[Sequence[int]]:
        between = range(self.axis, self.axis + len(self.free))
        return [self.place(t) for t, _ in self.aligned], between, [self.place(k) for k in self.rest]


def _grouped(array: np.ndarray, groups: Sequence[Sequence[int]]) -> np.ndarray:
    """Each group of dimensions as one."""
    order = [k for group in groups for k in group]
    return array.transpose(order).reshape([math.prod(array.shape[k] for k in group) for group in groups])


def _ungrouped(flat: np.ndarray, groups: Sequence[Sequence[int]], shape: Sequence[int]) -> np.ndarray:
    """The inverse of `_grouped`."""
    order = [k for group in groups for k in group]
    return flat.reshape([shape[k] for k in order]).transpose(np.argsort(order))


def indexing(
    axis: Any, aligned: Any, table: Sequence[int | None], indices: Sequence[int], dtype: str
) -> Indexing:
    """The indexing that these attributes and shapes describe; a table size of None is not checked.

    Raises:
        ValueError: the axis or a pair lies outside, a dimension is used twice, sizes differ, or the indices
            are no integers.
    """
    axis = canonical_axis(axis, len(table))
    if numpy_dtype(dtype).kind not in "iu":
        raise ValueError(f"indices must be integers, not {dtype}")
    if not isinstance(aligned, tuple) or not all(isinstance(p, tuple) and len(p) == 2 for p in aligned):
        raise ValueError(
            f"attribute 'aligned' must be a tuple of (table dim, indices dim) pairs, not {aligned!r}"
        )
    for t, k in aligned:
        if not (0 <= t < len(table) and 0 <= k < len(indices)) or t == axis:
            raise ValueError(
                f"pair {(t, k)} of 'aligned' must name a table dimension below {len(table)} other than axis "
                f"{axis} and an indices dimension below {len(indices)}"
            )
        if table[t] not in (None, indices[k]):
            raise ValueError(
                f"pair {(t, k)} of 'aligned' joins size {table[t]} of the table with size {indices[k]}"
            )
    used = [k for _, k in aligned]
    if len(set(used)) != len(used) or len({t for t, _ in aligned}) != len(aligned):
        raise ValueError(f"attribute 'aligned' must name each dimension once, not {aligned}")
    free = tuple(k for k in range(len(indices)) if k not in used)
    return Indexing(axis, aligned, free, len(table))


def wrapped(positions: np.ndarray, size: int, mode: str) -> np.ndarray:
    """Positions as they are meant: "strict" ones count from the end if negative, "clip" moves them inside.

    In any other mode positions outside `[0, size)` are nowhere and stay as they are.

    Raises:
        ValueError: a strict position lies outside.
    """
    positions = positions.astype(np.int64, copy=False)
    if mode == "clip":
        return np.asarray(np.clip(positions, 0, size - 1))
    if mode != "strict":
        return positions
    if positions.size and not (-size <= positions.min() and positions.max() < size):
        raise ValueError(
            f"indices must lie in [{-size}, {size}), not in [{positions.min()}, {positions.max()}]"
        )
    return np.where(positions < 0, positions + size, positions)
