"""Layouts of elements in physical extents that a grid of cores splits into shards: offsets, sizes, padding, packing."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tapestry.hardware.layouts.layout import Buffers, Indices, Layout, LayoutError, Mask
from tapestry.hardware.layouts.tt_metal.element import ELEMENTS_PER_EXPONENT, MetalElement
from tapestry.hardware.layouts.tt_metal.placement import CorePlacement
from tapestry.hardware.layouts.tt_metal.shards import MetalShards


@dataclass(frozen=True)
class ShardedLayout(Layout):
    """The base of both attributes' layouts, older and newer: elements placed in physical extents, split into shards."""

    element_bits: int = field(init=False)

    @property
    @abstractmethod
    def element(self) -> MetalElement:
        """The element of a shard: a scalar or a tile."""

    @property
    @abstractmethod
    def shards(self) -> MetalShards:
        """The storage of the physical extents as shards."""

    @property
    @abstractmethod
    def placement(self) -> CorePlacement:
        """The placement of the elements in the physical extents."""

    @property
    @abstractmethod
    def padding_value(self) -> str:
        """The fill value of the padding: undef, zero, one, inf or neginf."""

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The extents of all stored shards side by side, in scalars."""
        return self.shards.padded

    @property
    def buffer_count(self) -> int:
        """The number of cores of the grid."""
        return self.shards.count

    @property
    def buffer_elements(self) -> int:
        """The number of scalars of one shard, padding included."""
        return self.shards.elements

    @property
    def size_bytes(self) -> int:
        """The size of all shards in bytes, with the exponents that block floats share."""
        return self.shards.count * (self.shards.elements // self.element.scalars) * self.element.size_bytes

    @property
    def padding_bytes(self) -> int:
        """The number of bytes that hold no element; of block floats, exponents count with the elements that they
        scale.

        Raises `LayoutError` if two elements are at one place, so that there is no such number.
        """
        self.placement.check_room()
        return self.size_bytes - logical_bytes(self.element_count, self.element)

    def picture_offsets(self, places: Indices) -> Indices:
        """Compute offsets (n,) of places (n, k) in the extents of all stored shards side by side, with tile padding."""
        side_by_side = replace(self.shards, pitch=self.shards.stored)
        offsets = side_by_side.offsets(tuple(places.T))
        return np.broadcast_to(offsets, (len(places),)).astype(np.int64)

    def buffer_name(self, buffer: int) -> str:
        """Name the core of the grid that holds a buffer."""
        return f"core {[int(c) for c in np.unravel_index(buffer, self.shards.grid)]}"

    def padding(self, dim: int) -> tuple[int, ...]:
        """Return the number of padded rows of each core's shard along a dimension of the grid."""
        return self.shards.padding(dim)

    def valid_region(self, core: Sequence[int]) -> tuple[int, ...]:
        """Return the extents of a core's shard, from its origin, that are inside the physical extents.

        Raises `LayoutError` for a core outside the grid.
        """
        check_core(core, self.shards.grid)
        return tuple(self.shards.valid(dim)[place] for dim, place in enumerate(core))

    def _offsets(self, coords: Indices) -> Indices:
        """Compute the offsets (n,) of the elements at `coords` (n, rank)."""
        offsets = self.shards.offsets(tuple(self.placement.indices(coords)))
        return np.broadcast_to(offsets, (coords.shape[0],)).copy() if offsets.ndim == 0 else offsets

    def _coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Compute coordinates (n, rank) of the elements at `offsets` (n,), and a mask (n,), False on padding."""
        indices, real = self.shards.indices(offsets)
        return self.placement.coordinates(indices, real)

    def pack(self, array: Buffers, fill: float | None = None) -> Buffers:
        """Pack `array` (shape) into shards (cores, scalars).

        Padding holds `fill`, by default the attribute's value: undef and zero 0, one 1, inf and neginf the infinities
        (the extreme values of an integer type).
        """
        self._expect(array, self.shape, "array")
        value = fill_value(self.padding_value, array.dtype) if fill is None else fill
        if not self.placement.is_strided or array.size == 0:
            self.placement.check_injective()
            return super().pack(array, value)
        shards, cells = self.shards, array
        room = tuple(g * p for g, p in zip(shards.grid, shards.pitch, strict=True))
        if room == shards.physical and self.placement.is_dense:
            cells = array.reshape(room)
        else:
            cells = np.full(room, value, dtype=array.dtype)
            self.placement.view(cells)[...] = array
        packed = shards.store(cells, value)
        return packed.copy() if np.may_share_memory(packed, array) else packed

    def unpack(self, buffers: Buffers) -> Buffers:
        """Unpack the array (shape) from shards (cores, scalars)."""
        self._expect(buffers, (self.buffer_count, self.buffer_elements), "buffers")
        if not self.placement.is_strided or self.element_count == 0:
            return super().unpack(buffers)
        cells = self.shards.load(buffers)
        if self.shards.physical == cells.shape and self.placement.is_dense:
            array = cells.reshape(self.shape)
            return array.copy() if np.may_share_memory(array, buffers) else array
        return self.placement.view(cells).copy()


def logical_bytes(count: int, stored: MetalElement) -> int:
    """Compute the bytes of `count` scalars of an element, shared exponents in proportion, rounded up."""
    eighths = count * stored.bits * ELEMENTS_PER_EXPONENT + (count * 8 if stored.is_block_float else 0)
    return -(-eighths // (8 * ELEMENTS_PER_EXPONENT))


def fill_value(word: str, dtype: np.dtype) -> float:
    """Convert an out-of-bounds value such as `zero` or `inf` to a number of a numpy type."""
    if word in ("undef", "zero", "one"):
        return int(word == "one")
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return int(limits.max if word == "inf" else limits.min)
    return float("inf") if word == "inf" else float("-inf")


def check_core(core: Sequence[int], grid: Sequence[int]) -> None:
    """Raise `LayoutError` for a core outside a grid."""
    if len(core) != len(grid) or any(not 0 <= c < n for c, n in zip(core, grid, strict=True)):
        raise LayoutError(f"core {list(core)} is not inside the grid {list(grid)}")
