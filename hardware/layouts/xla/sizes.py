"""Sizes and strides as XLA's own functions count them, each under the name that XLA gives it.

They are narrower than the definition that `XlaLayout` follows: only the first tile counts, `LinearIndex` ignores even
that for rank 1, and tail padding is added to tiled arrays only. Source: openxla/xla:xla/shape_util.cc (ArraySize,
ArrayDataSize, ByteStrides), xla/layout_util.cc (LinearIndex, MaxSplitSize, ByteStridesIsMajorToMinor).
"""

from collections.abc import Sequence
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.xla.fields import LayoutFields, descending
from tapestry.hardware.layouts.xla.primitives import primitive_named
from tapestry.hardware.layouts.xla.shape import ArrayShape
from tapestry.hardware.layouts.xla.tile import COMBINE
from tapestry.hardware.layouts.xla.tiling import tile_step
from tapestry.hardware.layouts.xla.validation import check_size, validate_for


def array_size(shape: ArrayShape) -> int:
    """Compute the bytes of an array with its padding (ArraySize); inner tiles are assumed to add none."""
    layout = _layout_of(shape)
    if not layout.tiles:
        return _bytes(shape, layout, prod(shape.dimensions))
    parts = [max_split_size(shape, dim) for dim in reversed(layout.minor_to_major)]
    count = prod(tile_step(parts, layout.tiles[0]).padded)
    tail = layout.tail_padding_alignment_in_elements
    return _bytes(shape, layout, -(-count // tail) * tail)


def array_data_size(shape: ArrayShape) -> int:
    """Compute the bytes up to the end of the last element, without trailing padding (ArrayDataSize)."""
    last = [size - 1 for size in shape.dimensions]
    return _bytes(shape, _layout_of(shape), linear_index_of_first_tile(shape, last) + 1)


def linear_index_of_first_tile(shape: ArrayShape, index: Sequence[int]) -> int:
    """Compute `LayoutUtil::LinearIndex`, which uses the first tile only, none for rank 1, and is 0 for a scalar.

    Raises `LayoutError` for an index of another rank, and for `*`, which that function does not handle.
    """
    layout, rank = _layout_of(shape), len(shape.dimensions)
    if len(index) != rank:
        raise LayoutError(f"index {list(index)} has {len(index)} elements, but shape is rank {rank}")
    if rank < 2:
        return index[0] if rank else 0
    tile = layout.tiles[0] if layout.tiles else ()
    if COMBINE in tile:
        raise LayoutError("LayoutUtil::LinearIndex handles no '*'; ask for the index under all tiles")
    position, between, within = 0, prod(tile), 1
    for place, dim in enumerate(layout.minor_to_major):
        size = tile[-1 - place] if place < len(tile) else 1
        whole, rest = divmod(index[dim], size)
        position += between * whole + within * rest
        between *= -(-shape.dimensions[dim] // size)
        within *= size
    return position


def byte_strides(shape: ArrayShape) -> tuple[int, ...]:
    """Compute the bytes between neighbors along each logical dimension, ignoring tiles (ByteStrides)."""
    strides, stride = [0] * len(shape.dimensions), primitive_named(shape.dtype).size_bytes
    for dim in _layout_of(shape).minor_to_major:
        strides[dim] = stride
        stride *= shape.dimensions[dim]
    return tuple(strides)


def byte_strides_is_major_to_minor(strides: Sequence[int], dims: Sequence[int], dtype: str) -> bool:
    """Return whether strides in bytes are those of dimensions ordered from major to minor without gaps."""
    if len(strides) != len(dims):
        raise LayoutError(f"{len(strides)} byte strides for {len(dims)} dimensions; expected as many")
    return tuple(strides) == byte_strides(ArrayShape(dtype, tuple(dims)))


def max_split_size(shape: ArrayShape, dim: int) -> int:
    """Return the longest part into which the layout's splits divide a logical dimension (MaxSplitSize)."""
    layout, size = _layout_of(shape), shape.dimensions[dim]
    place = len(shape.dimensions) - 1 - layout.minor_to_major.index(dim)
    split = next((s for s in layout.split_configs if s.dimension == place), None)
    if split is None:
        return size
    return max(b - a for a, b in zip((0, *split.indices), (*split.indices, size), strict=True))


def max_elements_in_per_split(shape: ArrayShape) -> int:
    """Count the elements of the largest part (MaxElementsInPerSplit)."""
    return prod(max_split_size(shape, dim) for dim in range(len(shape.dimensions)))


def _layout_of(shape: ArrayShape) -> LayoutFields:
    if shape.layout is None:
        check_size(shape)
        return descending(len(shape.dimensions))
    check_size(shape)
    validate_for(shape.layout, shape)
    if shape.layout.is_sparse:
        raise LayoutError(f"{shape} is a sparse array; expected a dense one")
    return shape.layout


def _bytes(shape: ArrayShape, layout: LayoutFields, elements: int) -> int:
    bits = layout.element_size_in_bits
    return -(-elements * bits // 8) if bits else elements * primitive_named(shape.dtype).size_bytes
