"""The tiled layout of XLA bound to a shape: the position of each element, by all tiles, splits and tail padding."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import prod
from typing import ClassVar, Literal

import numpy as np

from tapestry.hardware.layouts.layout import Buffers, Indices, Layout, LayoutError, Mask
from tapestry.hardware.layouts.xla.defaults import default_tiles
from tapestry.hardware.layouts.xla.fields import LayoutFields, descending
from tapestry.hardware.layouts.xla.index import Column, columns_of, cut, positions, tiled, untiled
from tapestry.hardware.layouts.xla.primitives import primitive_named
from tapestry.hardware.layouts.xla.shape import UNBOUNDED, ArrayShape
from tapestry.hardware.layouts.xla.splits import Splits, splits_of
from tapestry.hardware.layouts.xla.text import parse_shape
from tapestry.hardware.layouts.xla.tile import Tile
from tapestry.hardware.layouts.xla.tiling import LARGEST, MOST_DIMENSIONS, TileStep, tile_steps
from tapestry.hardware.layouts.xla.validation import check_size, validate_for


@dataclass(frozen=True)
class XlaLayout(Layout):
    """A dense array of XLA in memory; create one with `XlaLayout.of` or `parse`.

    Bounded dynamic dimensions take the storage of their bounds. The offsets follow the definition (every tile, `*`,
    padding of inner tiles too, tail padding whether tiled or not); for XLA's own size functions see `sizes`.
    A layout split among memories has one buffer per combination of parts, each as large as the largest.
    """

    notation: ClassVar[str] = "xla"

    array: ArrayShape

    @staticmethod
    def of(
        shape: Sequence[int],
        dtype: str,
        minor_to_major: Sequence[int] | None = None,
        tiles: Sequence[Tile] | Literal["default"] | None = None,
    ) -> "XlaLayout":
        """Build the layout of an array, by default major to minor (see `minor_to_major`) and without tiles.

        `tiles="default"` takes the TPU's for the type and shape. Raises `LayoutError` for an impossible combination.
        Equal arguments give the same object for as long as it is cached, so repeated calls are cheap.
        """
        order = None if minor_to_major is None else tuple(minor_to_major)
        return _made(tuple(shape), dtype, order, tiles if isinstance(tiles, str) else tuple(tiles or ()))

    @staticmethod
    def bind(array: ArrayShape) -> "XlaLayout":
        """Build the layout of a shape, by default major to minor; `LayoutError` if it has no storage of its own."""
        primitive = primitive_named(array.dtype)
        rank = len(array.dimensions)
        if rank > MOST_DIMENSIONS:
            raise LayoutError(
                f"shape of type {array.dtype} is rank {rank}; expected at most {MOST_DIMENSIONS}"
            )
        layout = array.layout if array.layout is not None else descending(rank)
        if UNBOUNDED in array.dimensions:
            raise LayoutError(
                f"shape {array.bare} has an unbounded dimension; expected sizes or bounds (<=n)"
            )
        check_size(array)
        validate_for(layout, array)
        if layout.is_sparse:
            raise LayoutError(
                f"{array} is a sparse array, which has no storage of its own; expected dense levels"
            )
        if layout.element_size_in_bits < 0:
            raise LayoutError(f"element_size_in_bits is {layout.element_size_in_bits}; expected at least 0")
        bits = layout.element_size_in_bits or 8 * primitive.size_bytes
        dense = replace(layout, dim_level_types=(), dim_unique=(), dim_ordered=())
        bound = ArrayShape(primitive.name, array.dimensions, dense, array.dynamic)
        found = XlaLayout(array.dimensions, bits, bound)
        if max(found.buffer_count * found.buffer_elements, found.size_bytes) > LARGEST:
            raise LayoutError(f"Shape {str(array)[:80]} size may overflow int64_t.")
        return found

    @property
    def dtype(self) -> str:
        """XLA's name of the element type."""
        return self.array.dtype

    @property
    def fields(self) -> LayoutFields:
        """The fields inside the braces."""
        return self.array.layout or descending(len(self.shape))

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The tiles, first to last."""
        return self.fields.tiles

    @cached_property
    def dimension_order(self) -> tuple[int, ...]:
        """The logical dimensions, most major first."""
        return tuple(reversed(self.fields.minor_to_major))

    @cached_property
    def splits(self) -> Splits:
        """The parts into which the physical dimensions are split, one each unless `SC` specifies otherwise."""
        return splits_of([self.shape[dim] for dim in self.dimension_order], self.fields.split_configs)

    @cached_property
    def steps(self) -> tuple[TileStep, ...]:
        """The tiling steps of the physical dimensions (of the largest part)."""
        return tile_steps(self.splits.bounds, self.tiles)

    @cached_property
    def tiled_shape(self) -> tuple[int, ...]:
        """The bounds after the last tile, most major first; tail padding comes behind them."""
        return self.steps[-1].after if self.steps else self.splits.bounds

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The parts and tiled bounds; (parts, elements) where tail padding makes the storage longer than its bounds."""
        parts = tuple(n for n in self.splits.counts if n > 1)
        if self.buffer_elements != prod(self.tiled_shape):
            return (*parts, self.buffer_elements)
        return (*parts, *self.tiled_shape)

    @property
    def buffer_count(self) -> int:
        return prod(self.splits.counts)

    @cached_property
    def buffer_elements(self) -> int:
        tail = self.fields.tail_padding_alignment_in_elements
        return -(-prod(self.tiled_shape) // tail) * tail

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The bounds that the first tile applies to, padded to whole tiles, major first; the storage if it is split."""
        if self.buffer_count > 1:
            return self.physical_shape
        return self.steps[0].padded if self.steps else self.splits.bounds

    def picture_offsets(self, places: Indices) -> Indices:
        """Compute the offsets (n,) of places (n, k) in the padded bounds."""
        if self.buffer_count > 1:
            return super().picture_offsets(places)
        columns: list[Column] = list(places.T)
        for k, step in enumerate(self.steps):
            columns = tiled(columns, step) if k else cut(columns, step)
        return positions(columns, self.tiled_shape, len(places))

    def _offsets(self, coords: Indices) -> Indices:
        columns: list[Column] = [np.ascontiguousarray(coords[:, dim]) for dim in self.dimension_order]
        buffer, columns = self.splits.enter(columns)
        for step in self.steps:
            columns = tiled(columns, step)
        found = positions(columns, self.tiled_shape, len(coords))
        return found if buffer is None else found + buffer * self.buffer_elements

    def _coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        buffer, slot = np.divmod(offsets, max(1, self.buffer_elements))
        real = slot < prod(self.tiled_shape)
        columns = columns_of(np.where(real, slot, 0), self.tiled_shape)
        for step, before in zip(reversed(self.steps), self._bounds_before(), strict=True):
            columns = untiled(columns, step, real)
            columns = columns[len(columns) - len(before) :]
        columns = self.splits.leave(buffer, columns, real)
        found = np.zeros((len(offsets), len(self.shape)), dtype=np.int64)
        for dim, column in zip(self.dimension_order, columns, strict=True):
            found[:, dim] = 0 if column is None else np.where(real, column, 0)
        return found, real

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """Pack `array` (shape) into buffers (buffer_count, buffer_elements), in one copy where no tile pads."""
        if self.buffer_count > 1:
            return super().pack(array, fill)
        self._expect(array, self.shape, "array")
        current = array.transpose(self.dimension_order)
        for step in self.steps:
            current = _filled(current.reshape(step.folded), step.padded, fill)
            current = current.reshape(step.split).transpose(step.permutation)
        flat = np.empty(self.buffer_elements, dtype=array.dtype)
        flat[current.size :] = fill
        flat[: current.size].reshape(self.tiled_shape)[...] = current
        return flat.reshape(1, -1)

    def unpack(self, buffers: Buffers) -> Buffers:
        """Unpack the array (shape) from `buffers`, written through a tiled view of the array where it has one."""
        if self.buffer_count > 1:
            return super().unpack(buffers)
        self._expect(buffers, (1, self.buffer_elements), "buffers")
        stored = buffers[0, : prod(self.tiled_shape)].reshape(self.tiled_shape)
        room = self._room()
        if room is not None:
            found = np.empty(room, dtype=buffers.dtype)
            view = _viewed(found.transpose(self.dimension_order), self.steps)
            if view is not None:
                view[...] = stored
                return np.ascontiguousarray(found[tuple(map(slice, self.shape))]).reshape(self.shape)
        for step, before in zip(reversed(self.steps), self._bounds_before(), strict=True):
            whole = stored.transpose(np.argsort(step.permutation)).reshape(step.padded)
            stored = whole[tuple(map(slice, step.folded))].reshape(before)
        return np.ascontiguousarray(stored.transpose(np.argsort(self.dimension_order))).reshape(self.shape)

    def __str__(self) -> str:
        return str(self.array)

    def _bounds_before(self) -> list[tuple[int, ...]]:
        """Return the bounds each tile was applied to, last tile first, without missing dimensions of size 1."""
        return [self.splits.bounds, *(step.after for step in self.steps)][-2::-1]

    def _room(self) -> tuple[int, ...] | None:
        """Round the logical shape up to whole tiles; None if that is not the shape of the first step's padding."""
        if any(step.padded != step.folded for step in self.steps[1:]):
            return None
        if not self.steps or self.steps[0].padded == self.steps[0].folded:
            return self.shape
        first = self.steps[0]
        if len(first.padded) != len(self.shape) or len(first.bounds) != len(first.folded):
            return None
        sizes = dict(zip(self.dimension_order, first.padded, strict=True))
        return tuple(sizes[dim] for dim in range(len(self.shape)))


@lru_cache(maxsize=65536)
def _made(
    shape: tuple[int, ...], dtype: str, order: tuple[int, ...] | None, tiles: tuple[Tile, ...] | str
) -> XlaLayout:
    given = tuple(range(len(shape) - 1, -1, -1)) if order is None else order
    if isinstance(tiles, str):
        if tiles != "default":
            raise LayoutError(f"tiles {tiles!r} are none; expected tuples of sizes or 'default'")
        # An order that is none of this shape has no second most minor size; binding says what is wrong with it.
        tiles = default_tiles(shape, dtype, given) if sorted(given) == list(range(len(shape))) else ()
    return XlaLayout.bind(ArrayShape(dtype, shape, LayoutFields(given, tuple(map(tuple, tiles)))))


def _filled(array: Buffers, padded: tuple[int, ...], fill: float) -> Buffers:
    """Copy the array into larger bounds and fill only the space behind its ends, so that each cell is written once."""
    if array.shape == padded:
        return array
    whole = np.empty(padded, dtype=array.dtype)
    whole[tuple(map(slice, array.shape))] = array
    for axis, size in enumerate(array.shape):
        whole[(*(slice(None),) * axis, slice(size, None))] = fill
    return whole


def _viewed(array: Buffers, steps: Sequence[TileStep]) -> Buffers | None:
    """View an array in its tiled form; None where joining dimensions would copy."""
    for step in steps:
        try:
            array = array.reshape(step.split, copy=False).transpose(step.permutation)
        except ValueError:
            return None
    return array


def parse(text: str, dtype: str | None = None) -> XlaLayout:
    """Parse a text like `f32[3,5]{1,0:T(2,2)}` to its layout, major to minor where it has no braces.

    `dtype` is not needed, the text names its own. Raises `LayoutError` with the position, or XLA's words.
    """
    shape = parse_shape(text)
    if not isinstance(shape, ArrayShape):
        raise LayoutError(
            "at character 0: expected one array, found a tuple; describe its elements one by one"
        )
    return XlaLayout.bind(shape)
