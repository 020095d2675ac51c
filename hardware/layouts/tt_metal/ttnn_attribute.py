"""The compiler's `#ttnn.ttnn_layout` attribute: tiles are padded per matrix, before dimensions are joined.

Source: tt-mlir, `TTNNLayoutAttr::get`, `calculateLogicalShardShapeForSharding` and
`calculateLogicalShardShapeForL1Interleaved` of lib/Dialect/TTNN/IR/TTNNOpsAttrs.cpp.
"""

from collections.abc import Sequence
from math import prod

from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.attribute import MetalAttribute, cut, in_tiles
from tapestry.hardware.layouts.tt_metal.collapse import ALL_BUT_LAST, Intervals, collapsed_map
from tapestry.hardware.layouts.tt_metal.element import BLOCK_TILE, MetalElement, element
from tapestry.hardware.layouts.tt_metal.shards import Extents


def ttnn_attribute(
    shape: Sequence[int], dtype: str, grid: Sequence[int] = (1, 1), tile: tuple[int, int] | None = BLOCK_TILE,
    buffer_type: str = "dram", memory_layout: str | None = "interleaved", intervals: Intervals = ALL_BUT_LAST,
) -> MetalAttribute:  # fmt: skip
    """Build the attribute of a tensor whose matrices are padded to tiles and then joined: `1x1x1024 -> d0 * 32 + d1`.

    Sharded memory divides the padded extents by the grid; interleaved L1 gives every core its part of all tiles, in
    one row.
    """
    stored = element(dtype, tile)
    padded = tile_padded(shape, stored)
    linear = collapsed_map(padded, len(grid), tuple(intervals))
    if buffer_type == "l1" and memory_layout == "interleaved" and tile is not None:
        memref = interleaved_memref(padded, linear, grid, stored)
    else:
        memref = in_tiles(cut(linear.size(padded), grid), stored)
    return MetalAttribute(
        linear, "undef", tuple(grid), memref, stored, buffer_type, memory_layout, dialect="ttnn"
    )  # fmt: skip


def tile_padded(shape: Sequence[int], stored: MetalElement) -> Extents:
    """Round the last two extents of a shape up to whole tiles."""
    if stored.tile is None:
        return tuple(shape)
    extents = (*[1] * max(len(shape) - 2, 0), *stored.tile)[max(2 - len(shape), 0) :]
    return tuple(-(-n // t) * t for n, t in zip(shape, extents, strict=True))


def interleaved_memref(
    padded: Extents, linear: AffineMap, grid: Sequence[int], stored: MetalElement
) -> Extents:
    """Compute the memref extents of all tiles divided by all cores, rounded up, in one row."""
    tiles = prod(in_tiles(linear.size(padded), stored))
    return (*[1] * (len(grid) - 1), -(-tiles // prod(grid)))
