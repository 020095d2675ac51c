"""Tensor specs: a shape in a tensor layout, checked as ttnn checks it when a tensor is created."""

from dataclasses import dataclass

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.distribution import Distribution
from tapestry.hardware.layouts.ttnn.memory import MemoryConfig, ShardSpec
from tapestry.hardware.layouts.ttnn.shape import Shape
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.tile import Pair
from tapestry.hardware.layouts.ttnn.words import MemoryLayout, PageLayout, ShardOrientation


@dataclass(frozen=True)
class TensorSpec:
    """A logical shape and its layout; an invalid combination raises `LayoutError` in ttnn's words."""

    shape: tuple[int, ...]
    layout: TensorLayout

    def __post_init__(self) -> None:
        Shape(self.shape)
        check_dtype(self.layout)
        check_shards(self.layout, self.shape)
        _ = self.layout.padded_shape(self.shape)

    def __str__(self) -> str:
        return f"TensorSpec(logical_shape=Shape({list(self.shape)}),tensor_layout={self.layout})"

    @property
    def physical_size(self) -> Pair:
        """The extents (rows, columns) of the matrix that is stored."""
        return self.layout.physical_size(self.shape)

    @property
    def padded_shape(self) -> tuple[int, ...]:
        """The shape with padding."""
        return self.layout.padded_shape(self.shape)

    @property
    def distribution(self) -> Distribution:
        """The distribution of the shards over the cores; `LayoutError` for an interleaved tensor."""
        return self.layout.distribution(self.shape)


def check_dtype(layout: TensorLayout) -> None:
    """Check that block floats are in tiles and FP8 in rows (tt-metal: `validate_dtype_and_layout`)."""
    if layout.dtype.block_float and not layout.page.is_tiled:
        raise LayoutError(f"Only TILE layout is supported for {layout.dtype.name} dtype!")
    if layout.dtype.name == "FP8_E4M3" and layout.page.layout is not PageLayout.ROW_MAJOR:
        raise LayoutError("Only ROW_MAJOR layout is supported for FP8_E4M3 dtype!")


def check_shards(layout: TensorLayout, shape: tuple[int, ...]) -> None:
    """Check that every shard of a 2-D sharding has a core (tt-metal: `get_shape_fits_shard_grid_error`)."""
    memory: MemoryConfig = layout.memory
    shard = layout.physical_shard_2d
    if memory.shard is None or shard is None:
        return
    if not memory.shard.is_logical and len(layout.padded_shape(shape)) <= 1 and shard[0] != 1:
        raise LayoutError("Shard shape must be 1D for 1D tensor!")
    rows, columns = layout.physical_size(shape)
    high, wide = -(-rows // shard[0]), -(-columns // shard[1])
    if memory.layout is MemoryLayout.BLOCK_SHARDED:
        _check_blocks(memory.shard, high, wide)
        return
    by_height = memory.layout is MemoryLayout.HEIGHT_SHARDED
    if by_height and columns != shard[1]:
        raise LayoutError(f"Shard width {shard[1]} must match physical width {columns} for height sharded")
    if not by_height and rows != shard[0]:
        raise LayoutError(f"Shard height {shard[0]} must match physical height {rows} for width sharded")
    count, axis = (high, "height") if by_height else (wide, "width")
    cores = memory.shard.grid.core_count
    if count > cores:
        raise LayoutError(f"Number of shards along {axis} {count} must not exceed number of cores {cores}")


def _check_blocks(spec: ShardSpec, high: int, wide: int) -> None:
    if len(spec.grid.ranges) != 1:
        raise LayoutError("Shard grid must be one full rectangular grid for block sharded!")
    (grid,) = spec.grid.ranges
    row_major = spec.orientation is ShardOrientation.ROW_MAJOR
    order = "row major" if row_major else "column major"
    sides = (("rows", grid.rows), ("columns", grid.columns))
    for axis, count, (side, cores) in zip(
        ("height", "width"), (high, wide), sides if row_major else sides[::-1], strict=True
    ):
        if count > cores:
            raise LayoutError(
                f"Number of shards along {axis} {count} must not exceed number of {side} {cores} for {order} "
                "orientation!"
            )
