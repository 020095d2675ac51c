"""An array shape with its XLA layout: where each element lies, what the storage takes, packing by whole arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np

from hardware.layouts.layout import Buffers, Indices, Layout, LayoutError, Mask
from hardware.layouts.xla.choice import default_tiles
from hardware.layouts.xla.fields import XlaFields, check_for_shape
from hardware.layouts.xla.parsing import parse_shape
from hardware.layouts.xla.tiling import (
    Bounds,
    Cut,
    Tile,
    cuts,
    final_bounds,
    first_tile_index,
    tiled_index,
    untiled_index,
)
from hardware.layouts.xla.types import type_bits


@dataclass(frozen=True)
class XlaLayout(Layout):
    """`dtype[shape]{layout}`: a dense array; `dtype` is XLA's name of the type in lower case.

    Raises:
        LayoutError: the layout does not fit the shape (in XLA's words), or the array is sparse.
    """

    notation: ClassVar[str] = "xla"

    dtype: str
    fields: XlaFields

    def __post_init__(self) -> None:
        check_for_shape(self.fields, self.shape)
        if not self.fields.is_dense:
            raise LayoutError(f"{self} is a sparse array, whose storage depends on its values")
        if self.storage_elements >= 2**63:
            raise LayoutError(f"the storage of {self} has more than 2^63 - 1 elements")

    @staticmethod
    def of(
        shape: Sequence[int],
        dtype: str,
        minor_to_major: Sequence[int] | None = None,
        tiles: Sequence[Tile] | None = None,
    ) -> XlaLayout:
        """The layout of a shape; without `tiles` those that a TPU chooses, without an order the descending one."""
        order = tuple(reversed(range(len(shape)))) if minor_to_major is None else tuple(minor_to_major)
        if tiles is None:
            check_for_shape(XlaFields(order), shape)
            tiles = default_tiles(dtype, [shape[d] for d in reversed(order)])
        return XlaLayout(tuple(shape), type_bits(dtype), dtype, XlaFields(order, tiles=tuple(tiles)))

    def __str__(self) -> str:
        layout = str(self.fields)
        sizes = ",".join(map(str, self.shape))
        return f"{self.dtype}[{sizes}]" + (layout if layout != "{}" else "")

    @cached_property
    def physical_dims(self) -> Bounds:
        """The dimensions' sizes, most major first: what the first tile meets."""
        return tuple(self.shape[d] for d in reversed(self.fields.minor_to_major))

    @property
    def steps(self) -> tuple[Cut, ...]:
        """What every tile does."""
        return cuts(self.physical_dims, self.fields.tiles)

    @property
    def physical_shape(self) -> Bounds:
        """The bounds after all tiles, or one bound where tail padding rounds their product up."""
        bounds = final_bounds(self.physical_dims, self.fields.tiles)
        return bounds if prod(bounds) == self.storage_elements else (self.storage_elements,)

    @cached_property
    def storage_elements(self) -> int:
        """Elements of the storage: the final bounds, rounded up to the tail padding alignment."""
        align = self.fields.tail_padding_alignment_in_elements
        return -(-prod(final_bounds(self.physical_dims, self.fields.tiles)) // align) * align

    @property
    def buffer_count(self) -> int:
        return 1

    @property
    def buffer_elements(self) -> int:
        return self.storage_elements

    @property
    def array_size_bytes(self) -> int:
        """Bytes by `ShapeUtil::ArraySize`, which takes it that only the first tile adds padding."""
        first = cuts(self.physical_dims, self.fields.tiles[:1])
        elements = prod(first[0].padded) if first else prod(self.physical_dims)
        align = self.fields.tail_padding_alignment_in_elements
        elements = -(-elements // align) * align if first else elements
        return self._bytes(elements)

    @property
    def array_data_size_bytes(self) -> int:
        """Bytes up to the last element by `ShapeUtil::ArrayDataSize`, which looks at the first tile only."""
        last = [n - 1 for n in self.physical_dims]
        return self._bytes(first_tile_index(last, self.physical_dims, self.fields.tiles) + 1)

    def _bytes(self, elements: int) -> int:
        return -(-elements * self.element_bits // 8)

    @property
    def picture_shape(self) -> Bounds:
        """The bounds that the first tile meets, padded to whole tiles; most major first."""
        return self.steps[0].padded if self.steps else self.physical_dims

    def picture_offsets(self, places: Indices) -> Indices:
        """Offsets (n,) of places (n, k) in the padded bounds."""
        digits, later = list(places.T), self.steps[1:]
        if self.steps:
            kept, tile = self.steps[0].kept, self.steps[0].tile
            covered = list(zip(digits[kept:], tile, strict=True))
            digits = [*digits[:kept], *(c // t for c, t in covered), *(c % t for c, t in covered)]
        return self._folded(tiled_index(digits, later), len(places))

    def offsets(self, coords: Indices) -> Indices:
        index = [coords[:, d] for d in reversed(self.fields.minor_to_major)]
        return self._folded(tiled_index(index, self.steps), len(coords))

    def _folded(self, digits: Sequence[Indices], count: int) -> Indices:
        """Offsets (count,) of an index in the final bounds."""
        total = np.zeros(count, dtype=np.int64)
        for digit, bound in zip(digits, final_bounds(self.physical_dims, self.fields.tiles), strict=True):
            total = total * bound + digit
        return total

    def coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        bounds, rest, digits = final_bounds(self.physical_dims, self.fields.tiles), offsets, []
        for bound in reversed(bounds):
            digits.append(rest % max(bound, 1))
            rest = rest // max(bound, 1)
        index, real = untiled_index(digits[::-1], self.steps, len(self.shape))
        real = np.broadcast_to(real, offsets.shape) & (rest == 0)
        coords = np.zeros((len(offsets), len(self.shape)), dtype=np.int64)
        for dim, digit in zip(reversed(self.fields.minor_to_major), index, strict=True):
            coords[:, dim] = digit
        return coords, real

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """Pad, reshape and transpose, once per tile. Source: XLA, tiled layout."""
        self._expect(array, self.shape, "array")
        held = array.transpose(self.fields.minor_to_major[::-1])
        for step in self.steps:
            held = _padded(held.reshape(step.combined), step.padded, fill)
            held = held.reshape(step.split).transpose(step.permutation)
        flat = np.ascontiguousarray(held).reshape(-1)
        return _padded(flat, (self.storage_elements,), fill).reshape(1, -1)

    def unpack(self, buffers: Buffers) -> Buffers:
        self._expect(buffers, (1, self.storage_elements), "buffers")
        bounds = final_bounds(self.physical_dims, self.fields.tiles)
        held = buffers.reshape(-1)[: prod(bounds)].reshape(bounds)
        for step in reversed(self.steps):
            moved = held.reshape([step.split[k] for k in step.permutation])
            held = moved.transpose(np.argsort(step.permutation)).reshape(step.padded)
            held = held[tuple(slice(n) for n in step.combined)].reshape(step.bounds)
        order = self.fields.minor_to_major[::-1]
        logical = held.reshape(self.physical_dims).transpose(np.argsort(order))
        return np.ascontiguousarray(logical).reshape(self.shape)


def _padded(array: Buffers, shape: Bounds, fill: float) -> Buffers:
    if array.shape == shape:
        return array
    result = np.full(shape, fill, dtype=array.dtype)
    result[tuple(slice(n) for n in array.shape)] = array
    return result


def parse_xla_layout(text: str) -> XlaLayout:
    """The layout of an array shape's text, such as `bf16[16,256]{1,0:T(8,128)(2,1)}`.

    Raises:
        LayoutError: with the position and what was expected.
    """
    dtype, shape, fields = parse_shape(text)
    return XlaLayout(shape, fields.element_size_in_bits or type_bits(dtype), dtype, fields)
