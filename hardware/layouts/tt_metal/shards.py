"""Storage of a physical index space split over a grid of cores: one buffer per core, padded to whole tiles.

Order of operations: the grid divides the scalar extents, rounded up (`pitch`), then each shard is padded to whole
tiles (`stored`). Cores follow each other row-major. In a buffer tiles follow each other row-major, and so do the
elements of a tile: the faces in which a Tensix core keeps a tile belong to ttnn, not to this layout.
"""

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from tapestry.hardware.layouts.layout import Buffers, Indices, LayoutError, Mask
from tapestry.hardware.layouts.tt_metal.scanner import INT64_MAX

Extents = tuple[int, ...]


@dataclass(frozen=True)
class MetalShards:
    """The extents in scalars: `physical` of the whole, `pitch` from a core to the next, `stored` of one buffer."""

    physical: Extents
    grid: Extents
    pitch: Extents
    stored: Extents
    tile: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        """Raise `LayoutError` for storage of more than 2^63 - 1 elements, which 64 bits cannot number."""
        if prod(self.grid) * prod(self.stored) > INT64_MAX:
            raise LayoutError(
                f"a grid of {list(self.grid)} shards of {list(self.stored)} elements passes 2^63 - 1 elements"
            )

    @property
    def count(self) -> int:
        """The number of buffers."""
        return prod(self.grid)

    @property
    def elements(self) -> int:
        """The number of slots of one buffer."""
        return prod(self.stored)

    @property
    def padded(self) -> Extents:
        """The extents of all stored shards side by side."""
        return tuple(g * s for g, s in zip(self.grid, self.stored, strict=True))

    def valid(self, dim: int) -> Extents:
        """Return the extent of each core's shard, along a dimension of the grid, that is inside the physical one."""
        size, pitch = self.physical[dim], self.pitch[dim]
        return tuple(min(max(size - core * pitch, 0), pitch) for core in range(self.grid[dim]))

    def padding(self, dim: int) -> Extents:
        """Return the rows of each core's stored shard, along a dimension of the grid, beyond the valid ones."""
        return tuple(self.stored[dim] - valid for valid in self.valid(dim))

    def offsets(self, index: tuple[Any, ...]) -> Indices:
        """Compute the offsets (n,) of physical indices, one integer or array (n,) per dimension."""
        core: Any = 0
        cells = []
        for value, size, pitch in zip(index, self.grid, self.pitch, strict=True):
            core = core * size + value // max(pitch, 1)
            cells.append(value % max(pitch, 1))
        slot: Any = 0
        for (source, divisor), extent in zip(self._digits, self._extents, strict=True):
            digit = cells[source] // divisor
            slot = slot * extent + (digit % extent if self._wraps[source] and divisor == 1 else digit)
        return np.asarray(core * self.elements + slot, dtype=np.int64)

    def indices(self, offsets: Indices) -> tuple[list[Indices], Mask]:
        """Compute physical indices, one array (n,) per dimension, and a mask (n,) that is False outside `physical`."""
        core, slot = np.divmod(offsets, max(self.elements, 1))
        cells = [np.zeros_like(slot) for _ in self.stored]
        for (source, divisor), extent in zip(reversed(self._digits), reversed(self._extents), strict=True):
            slot, digit = np.divmod(slot, extent)
            cells[source] += digit * divisor
        real = np.ones(offsets.shape, dtype=np.bool_)
        for dim in reversed(range(len(self.grid))):
            core, place = np.divmod(core, self.grid[dim])
            real &= cells[dim] < self.pitch[dim]
            cells[dim] += place * self.pitch[dim]
            real &= cells[dim] < self.physical[dim]
        return cells, real

    def store(self, cells: Buffers, fill: float) -> Buffers:
        """Copy an array whose extents are `grid * pitch` into buffers (count, elements)."""
        rank = len(self.grid)
        order = (*range(0, 2 * rank, 2), *range(1, 2 * rank, 2))
        shards = cells.reshape(self._interleaved(self.pitch)).transpose(order)
        if self.pitch != self.stored:
            padded = np.full((*self.grid, *self.stored), fill, dtype=cells.dtype)
            padded[self._inside] = shards
            shards = padded
        return shards.reshape(*self.grid, *self._extents_in_place).transpose(self._to_slots).reshape(
            self.count, self.elements
        )  # fmt: skip

    def load(self, buffers: Buffers) -> Buffers:
        """Build the array of extents `grid * pitch` from buffers (count, elements)."""
        rank = len(self.grid)
        slots = buffers.reshape(*self.grid, *self._extents)
        shards = slots.transpose(np.argsort(self._to_slots).tolist()).reshape(*self.grid, *self.stored)
        order = [dim for pair in zip(range(rank), range(rank, 2 * rank), strict=True) for dim in pair]
        cells: Buffers = shards[self._inside].transpose(order)
        return cells.reshape(tuple(g * p for g, p in zip(self.grid, self.pitch, strict=True)))

    def _interleaved(self, extents: Extents) -> Extents:
        return tuple(n for pair in zip(self.grid, extents, strict=True) for n in pair)

    @cached_property
    def _inside(self) -> tuple[Any, ...]:
        return (..., *(slice(0, pitch) for pitch in self.pitch))

    @cached_property
    def _wraps(self) -> tuple[bool, ...]:
        rank = len(self.stored)
        return tuple(self.tile is not None and dim >= rank - 2 for dim in range(rank))

    @cached_property
    def _digits(self) -> tuple[tuple[int, int], ...]:
        """The digits of a slot, most significant first: the dimension each comes from and its divisor."""
        rank = len(self.stored)
        if self.tile is None:
            return tuple((dim, 1) for dim in range(rank))
        rows, columns = self.tile
        outer = tuple((dim, 1) for dim in range(rank - 2))
        return (*outer, (rank - 2, rows), (rank - 1, columns), (rank - 2, 1), (rank - 1, 1))

    @cached_property
    def _extents(self) -> Extents:
        """The extents of the digits in `_digits`."""
        if self.tile is None:
            return self.stored
        (rows, columns), (*outer, height, width) = self.tile, self.stored
        return (*outer, height // rows, width // columns, rows, columns)

    @cached_property
    def _extents_in_place(self) -> Extents:
        """The extents of the digits in `_digits`, each dimension's digits side by side."""
        if self.tile is None:
            return self.stored
        (rows, columns), (*outer, height, width) = self.tile, self.stored
        return (*outer, height // rows, rows, width // columns, columns)

    @cached_property
    def _to_slots(self) -> tuple[int, ...]:
        """The axes of `_extents_in_place` behind those of the grid, in the order of `_extents`."""
        first = len(self.grid) + len(self.stored)
        if self.tile is None:
            return tuple(range(first))
        return (*range(first - 2), first - 2, first, first - 1, first + 1)
