"""A tensor in a `tt.metal_layout`: where each element lies on the cores, what the storage costs, packing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from hardware.layouts.layout import Buffers, Indices, Layout, LayoutError, Mask
from hardware.layouts.tt_metal.attribute import MetalAttribute, cut, in_tiles
from hardware.layouts.tt_metal.collapse import ALL_BUT_LAST, Intervals, collapsed_map
from hardware.layouts.tt_metal.element import BLOCK_TILE, ELEMENTS_PER_EXPONENT, Element, element, scalar
from hardware.layouts.tt_metal.placement import Placement
from hardware.layouts.tt_metal.printing import printed_tensor
from hardware.layouts.tt_metal.shards import Shards


@dataclass(frozen=True)
class ShardedLayout(Layout):
    """What the older and the newer attribute share: elements placed in physical extents, those cut into shards."""

    element_bits: int = field(init=False)

    @property
    def element(self) -> Element:
        """What a shard holds: scalars or tiles."""
        raise NotImplementedError

    @property
    def shards(self) -> Shards:
        """How the physical extents are stored."""
        raise NotImplementedError

    @property
    def placement(self) -> Placement:
        """Where in the physical extents the elements are."""
        raise NotImplementedError

    @property
    def padding_value(self) -> str:
        """What fills the padding: undef, zero, one, inf or neginf."""
        raise NotImplementedError

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The extents of all stored shards side by side, in scalars."""
        return self.shards.padded

    @property
    def buffer_count(self) -> int:
        """Cores of the grid."""
        return self.shards.count

    @property
    def buffer_elements(self) -> int:
        """Scalars of one shard, padding included."""
        return self.shards.elements

    @property
    def size_bytes(self) -> int:
        """Bytes of all shards, with the exponents that block floats share."""
        return self.shards.count * (self.shards.elements // self.element.scalars) * self.element.size_bytes

    @property
    def padding_bytes(self) -> int:
        """Bytes that hold no element; of block floats, exponents count with the elements that they scale."""
        return self.size_bytes - logical_bytes(self.element_count, self.element)

    def padding(self, dim: int) -> tuple[int, ...]:
        """Per core along a dimension of the grid, the padded rows of its shard."""
        return self.shards.padding(dim)

    def valid_region(self, core: Sequence[int]) -> tuple[int, ...]:
        """The extents of a core's shard, from its origin, that lie inside the physical extents.

        Raises `LayoutError` for a core outside the grid.
        """
        check_core(core, self.shards.grid)
        return tuple(self.shards.valid(dim)[place] for dim, place in enumerate(core))

    def offsets(self, coords: Indices) -> Indices:
        """Offsets (n,) of the elements at `coords` (n, rank)."""
        offsets = self.shards.offsets(tuple(self.placement.indices(coords)))
        return np.broadcast_to(offsets, (coords.shape[0],)).copy() if offsets.ndim == 0 else offsets

    def coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Coordinates (n, rank) of the elements at `offsets` (n,), and a mask (n,) that is False on padding."""
        indices, real = self.shards.indices(offsets)
        return self.placement.coordinates(indices, real)

    def pack(self, array: Buffers, fill: float | None = None) -> Buffers:
        """The shards (cores, scalars) that hold `array` (shape).

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
        return shards.store(cells, value)

    def unpack(self, buffers: Buffers) -> Buffers:
        """The array (shape) that shards (cores, scalars) hold."""
        self._expect(buffers, (self.buffer_count, self.buffer_elements), "buffers")
        if not self.placement.is_strided or self.element_count == 0:
            return super().unpack(buffers)
        cells = self.shards.load(buffers)
        if self.shards.physical == cells.shape and self.placement.is_dense:
            return cells.reshape(self.shape)
        return np.ascontiguousarray(self.placement.view(cells))


@dataclass(frozen=True)
class MetalLayout(ShardedLayout):
    """`tensor<SHAPExDTYPE, #tt.metal_layout<...>>`: a shape and scalar type with the attribute bound to them."""

    notation: ClassVar[str] = "tt_metal"

    dtype: str
    attribute: MetalAttribute

    def __post_init__(self) -> None:
        """Refuse a map or memref that the shape does not fit; `LayoutError` names the rule."""
        object.__setattr__(self, "element_bits", self.attribute.element.bits)
        object.__setattr__(self, "_shards", self.attribute.shards(self.shape))

    @classmethod
    def of(
        cls, shape: Sequence[int], dtype: str, collapse_intervals: Intervals = ALL_BUT_LAST,
        grid: Sequence[int] = (1, 1), tile: tuple[int, int] | None = BLOCK_TILE,
        memory_space: str = "l1", oob: str = "undef", dialect: str = "tt",
    ) -> "MetalLayout":  # fmt: skip
        """The layout of a tensor whose dimensions are joined by intervals, cut over a grid, padded to tiles.

        `dtype` is that of the stored element; a block float (`bfp_bf8`) holds a tensor of f32.
        """
        stored = element(dtype, tile)
        linear = collapsed_map(tuple(shape), len(grid), tuple(collapse_intervals))
        attribute = MetalAttribute.derive(shape, linear, grid, stored, memory_space, oob, dialect)
        return cls(tuple(shape), scalar_name(dtype), attribute)

    @property
    def element(self) -> Element:
        """What a shard holds: scalars or tiles."""
        return self.attribute.element

    @property
    def padding_value(self) -> str:
        """What fills the padding."""
        return self.attribute.oob

    @property
    def shards(self) -> Shards:
        """How the physical extents are stored."""
        found: Shards = self.__dict__["_shards"]
        return found

    @cached_property
    def placement(self) -> Placement:
        """Where in the physical extents the elements are."""
        return Placement(self.attribute.linear, self.shape, self.shards.physical)

    def row_starts(self) -> tuple[int, ...]:
        """The physical row at which each index of the first dimension begins, the other dimensions at 0."""
        row = max(len(self.attribute.grid) - 2, 0)
        if not self.shape:
            return (int(self.attribute.linear.evaluate([])[row]),)
        rest = [0] * (len(self.shape) - 1)
        return tuple(int(self.attribute.linear.evaluate([i, *rest])[row]) for i in range(self.shape[0]))

    def __str__(self) -> str:
        return printed_tensor(self.shape, self.dtype, self.attribute)


def stored_bytes(
    shape: Sequence[int], dtype: str, collapse_intervals: Intervals = ALL_BUT_LAST,
    grid: Sequence[int] = (1, 1), tile: tuple[int, int] | None = BLOCK_TILE,
) -> int:  # fmt: skip
    """`MetalLayout.of(...).size_bytes` without making the layout."""
    stored = element(dtype, tile)
    physical = collapsed_map(tuple(shape), len(grid), tuple(collapse_intervals)).size(shape)
    return prod(grid) * prod(in_tiles(cut(physical, grid), stored)) * stored.size_bytes


def logical_bytes(count: int, stored: Element) -> int:
    """Bytes of so many scalars of an element, shared exponents in proportion, rounded up."""
    eighths = count * stored.bits * ELEMENTS_PER_EXPONENT + (count * 8 if stored.is_block_float else 0)
    return -(-eighths // (8 * ELEMENTS_PER_EXPONENT))


def scalar_name(dtype: str) -> str:
    """The tensor's scalar type for a stored data type: itself, or `f32` for a block float."""
    tiled = {"u32": "ui32", "u16": "ui16", "u8": "ui8"}
    if dtype.startswith("bfp"):
        return "f32"
    return scalar(tiled.get(dtype, dtype)).dtype


def fill_value(word: str, dtype: np.dtype) -> float:
    """The number that an out-of-bounds value is in a numpy type."""
    if word in ("undef", "zero", "one"):
        return int(word == "one")
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return int(limits.max if word == "inf" else limits.min)
    return float("inf") if word == "inf" else float("-inf")


def check_core(core: Sequence[int], grid: Sequence[int]) -> None:
    """Refuse a core outside a grid."""
    if len(core) != len(grid) or any(not 0 <= c < n for c, n in zip(core, grid, strict=True)):
        raise LayoutError(f"core {list(core)} is not inside the grid {list(grid)}")
