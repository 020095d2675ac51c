"""Indexing shared by gathers and scatters: aligned dimensions, meaning of positions, common form of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from tapestry.teg.arrays import Array, ArrayNamespace
from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.operators.reading import canonical_axis


class Indexing(NamedTuple):
    """Positions along dimension `axis` of a table of some rank; `aligned` (table dim, indices dim) run together.

    The gathered array (and the updates of a scatter) has the table's dimensions in order, `axis`
    replaced by the `free` dimensions of the indices: those that are not aligned.
    """

    axis: int
    aligned: tuple[tuple[int, int], ...]
    free: tuple[int, ...]
    rank: int

    @property
    def rest(self) -> tuple[int, ...]:
        """The table's dimensions other than `axis` and the aligned ones."""
        together = {self.axis, *(t for t, _ in self.aligned)}
        return tuple(k for k in range(self.rank) if k not in together)

    def place(self, dim: int) -> int:
        """Return the position in the gathered array of a table dimension other than `axis`."""
        return dim if dim < self.axis else dim - 1 + len(self.free)

    def partner(self, dim: int) -> int | None:
        """Return the table dimension that runs together with a dimension of the indices; None if there is none."""
        return next((t for t, k in self.aligned if k == dim), None)

    def shape(self, table: Sequence[int], indices: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the gathered array."""
        return (*table[: self.axis], *(indices[k] for k in self.free), *table[self.axis + 1 :])

    def flat_table(self, xp: ArrayNamespace, table: Array) -> Array:
        """Reshape a table to `(aligned, axis, rest)`."""
        return _grouped(xp, table, ([t for t, _ in self.aligned], [self.axis], self.rest))

    def flat_positions(self, xp: ArrayNamespace, positions: Array) -> Array:
        """Reshape indices to `(aligned, free)`."""
        return _grouped(xp, positions, ([k for _, k in self.aligned], self.free))

    def flat_gathered(self, xp: ArrayNamespace, gathered: Array) -> Array:
        """Reshape the gathered array to `(aligned, free, rest)`."""
        return _grouped(xp, gathered, self._gathered_groups)

    def gathered(self, xp: ArrayNamespace, flat: Array, shape: Sequence[int]) -> Array:
        """Reshape `(aligned, free, rest)` to the shape of the gathered array."""
        return _ungrouped(xp, flat, self._gathered_groups, shape)

    def table(self, xp: ArrayNamespace, flat: Array, shape: Sequence[int]) -> Array:
        """Reshape `(aligned, axis, rest)` to the shape of the table."""
        return _ungrouped(xp, flat, ([t for t, _ in self.aligned], [self.axis], self.rest), shape)

    @property
    def _gathered_groups(self) -> Sequence[Sequence[int]]:
        between = range(self.axis, self.axis + len(self.free))
        return [self.place(t) for t, _ in self.aligned], between, [self.place(k) for k in self.rest]


def _grouped(xp: ArrayNamespace, array: Array, groups: Sequence[Sequence[int]]) -> Array:
    """Merge each group of dimensions into one."""
    order = [k for group in groups for k in group]
    shape = [math.prod(array.shape[k] for k in group) for group in groups]
    return xp.reshape(xp.permute_dims(array, order), shape)


def _ungrouped(
    xp: ArrayNamespace, flat: Array, groups: Sequence[Sequence[int]], shape: Sequence[int]
) -> Array:
    """Invert `_grouped`."""
    order = [k for group in groups for k in group]
    back = sorted(range(len(order)), key=order.__getitem__)
    return xp.permute_dims(xp.reshape(flat, [shape[k] for k in order]), back)


def indexing(
    axis: Any, aligned: Any, table: Sequence[int | None], indices: Sequence[int], dtype: str
) -> Indexing:
    """Build the indexing that these attributes and shapes describe; a table size of None is not checked.

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


def wrapped(xp: ArrayNamespace, positions: Array, size: int, mode: str) -> Array:
    """Resolve positions: "strict" ones count from the end if negative, "clip" moves them inside.

    In any other mode positions outside `[0, size)` refer to no element and stay as they are.

    Raises:
        ValueError: a strict position lies outside, where values are at hand.
    """
    positions = xp.cast(positions, "int64")
    if mode == "clip":
        return xp.elementwise("min", xp.elementwise("max", positions, 0), size - 1)
    if mode != "strict":
        return positions
    positions = xp.checked(positions, -size, size)
    return xp.elementwise("where", positions < 0, positions + size, positions)
