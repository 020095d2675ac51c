"""Conversion of a 2-D sharding to an ND sharding and back, and shard shapes chosen for a tensor.

The rules are tt-metal's `tensor_spec.cpp`.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.cores import CoreRangeSet
from tapestry.hardware.layouts.ttnn.memory import MemoryConfig, NdShardSpec, ShardSpec
from tapestry.hardware.layouts.ttnn.spec import TensorSpec
from tapestry.hardware.layouts.ttnn.tensor_layout import TensorLayout
from tapestry.hardware.layouts.ttnn.tile import Pair, round_up
from tapestry.hardware.layouts.ttnn.words import MemoryLayout, ShardDistributionStrategy, ShardOrientation


def nd_of_legacy(spec: TensorSpec) -> NdShardSpec | None:
    """Convert a 2-D sharding to an ND sharding; None for an interleaved tensor, or one split into logical shards."""
    memory, shard = spec.layout.memory, spec.layout.physical_shard
    if memory.shard is None or shard is None:
        return memory.nd_shard
    if memory.shard.is_logical:
        return None
    if len(spec.padded_shape) <= 1:
        shard = shard[1:]
    block = memory.layout is MemoryLayout.BLOCK_SHARDED
    strategy = ShardDistributionStrategy.GRID_2D if block else ShardDistributionStrategy.ROUND_ROBIN_1D
    return NdShardSpec(shard, memory.shard.grid, memory.shard.orientation, strategy)


def legacy_of_nd(spec: TensorSpec) -> MemoryConfig | None:
    """Convert an ND sharding to a 2-D sharding; None where no 2-D sharding distributes the shards in the same way.

    Distributed one by one, shards form blocks only if a line of them fills a line of cores: a row, or in column-major
    orientation a column (tt-metal compares the width in both and moves shards).
    """
    nd = spec.layout.memory.nd_shard
    if nd is None:
        return spec.layout.memory if spec.layout.memory.is_sharded else None
    shard = _flattened(nd.shape, spec.padded_shape)
    if shard is None or nd.distribution is ShardDistributionStrategy.CONTIGUOUS_1D:
        return None
    high, wide = (-(-size // cut) for size, cut in zip(spec.physical_size, shard, strict=True))
    if nd.orientation is not ShardOrientation.ROW_MAJOR:
        high, wide = wide, high
    if high * wide > nd.grid.core_count:
        return None
    one_by_one = nd.distribution is ShardDistributionStrategy.ROUND_ROBIN_1D
    kind = _kind(shard, spec.padded_shape) if one_by_one else MemoryLayout.BLOCK_SHARDED
    if kind is MemoryLayout.BLOCK_SHARDED:
        if len(nd.grid.ranges) != 1:
            return None
        (grid,) = nd.grid.ranges
        line = wide == grid.columns if nd.orientation is ShardOrientation.ROW_MAJOR else high == grid.rows
        if wide > grid.columns or high > grid.rows or (one_by_one and not line):
            return None
    return MemoryConfig(kind, spec.layout.memory.buffer, ShardSpec(nd.grid, shard, nd.orientation))


def _flattened(shard: Sequence[int], padded: Sequence[int]) -> Pair | None:
    """Flatten an ND shard shape to a matrix; None unless only the first split dimension has others before it."""
    padded = (1,) * (len(shard) - len(padded)) + tuple(padded)
    height = 1
    for at in range(-2, -len(shard) - 1, -1):
        height *= shard[at]
        if padded[at] == shard[at]:
            continue
        if prod(shard) != height * shard[-1]:
            return None
        first = at == -len(shard)
        if first or padded[at] % shard[at] == 0 or prod(padded[:at]) == 1:
            break
        return None
    return height, shard[-1]


def _kind(shard: Pair, padded: Sequence[int]) -> MemoryLayout:
    if shard[0] == prod(padded[:-1]):
        return MemoryLayout.WIDTH_SHARDED
    return MemoryLayout.HEIGHT_SHARDED if shard[1] == padded[-1] else MemoryLayout.BLOCK_SHARDED


def sharded(spec: TensorSpec, shard: NdShardSpec, alignment: Sequence[int] = ()) -> TensorSpec:
    """Shard the tensor, with the last dimensions of the shards rounded up to an alignment."""
    first = len(shard.shape) - len(alignment)
    if first < 0:
        raise LayoutError(f"a shard of rank {len(shard.shape)} cannot be aligned to {list(alignment)}")
    shape = shard.shape[:first] + tuple(map(round_up, shard.shape[first:], alignment))
    memory = MemoryConfig(buffer=spec.layout.memory.buffer, nd_shard=replace(shard, shape=shape))
    return TensorSpec(spec.shape, TensorLayout(spec.layout.dtype, spec.layout.page, memory))


def sharded_across_dims(
    spec: TensorSpec,
    dims: Sequence[int],
    grid: CoreRangeSet,
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
) -> TensorSpec:
    """Shard the tensor as finely as possible along some dimensions and keep the others whole."""
    shape = list(spec.padded_shape)
    for dim in dims:
        shape[_dimension(dim, shape)] = 1
    return _recommended(spec, tuple(shape), grid, orientation)


def sharded_across_dims_except(
    spec: TensorSpec,
    dims: Sequence[int],
    grid: CoreRangeSet,
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
) -> TensorSpec:
    """Keep the tensor whole along some dimensions and shard it as finely as possible along the others."""
    padded = spec.padded_shape
    shape = [1] * len(padded)
    for dim in dims:
        shape[_dimension(dim, padded)] = padded[dim]
    return _recommended(spec, tuple(shape), grid, orientation)


def height_sharded(
    spec: TensorSpec, grid: CoreRangeSet, orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
) -> TensorSpec:
    """Distribute the tensor's rows evenly over all cores."""
    rows, columns = spec.physical_size
    shard = NdShardSpec((_share(rows, grid.core_count), columns), grid, orientation)
    return sharded(spec, shard, spec.layout.page.required_shard_alignment())


def width_sharded(
    spec: TensorSpec, grid: CoreRangeSet, orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
) -> TensorSpec:
    """Distribute the tensor's columns evenly over all cores."""
    rows, columns = spec.physical_size
    shard = NdShardSpec((rows, _share(columns, grid.core_count)), grid, orientation)
    return sharded(spec, shard, spec.layout.page.required_shard_alignment())


def block_sharded(
    spec: TensorSpec, grid: CoreRangeSet, orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
) -> TensorSpec:
    """Split the tensor into blocks, one for each core of a rectangle."""
    if len(grid.ranges) != 1:
        raise LayoutError("Block sharding requires a single CoreRange")
    (cores,) = grid.ranges
    rows, columns = spec.physical_size
    sides = (
        (cores.rows, cores.columns)
        if orientation is ShardOrientation.ROW_MAJOR
        else (cores.columns, cores.rows)
    )
    shape = (_share(rows, sides[0]), _share(columns, sides[1]))
    shard = NdShardSpec(shape, grid, orientation, ShardDistributionStrategy.GRID_2D)
    return sharded(spec, shard, spec.layout.page.recommended_shard_alignment(spec.layout.dtype))


def _recommended(
    spec: TensorSpec, shape: tuple[int, ...], grid: CoreRangeSet, orientation: ShardOrientation
) -> TensorSpec:
    alignment = spec.layout.page.recommended_shard_alignment(spec.layout.dtype)
    return sharded(spec, NdShardSpec(shape, grid, orientation), alignment)


def _share(size: int, parts: int) -> int:
    if parts < 1:
        raise LayoutError("Can't distribute non zero volume tensor over an empty set of cores")
    return max(1, -(-size // parts))


def _dimension(dim: int, shape: Sequence[int]) -> int:
    if not -len(shape) <= dim < len(shape):
        raise LayoutError(f"dimension {dim} is not one of a shape of rank {len(shape)}")
    return dim % len(shape)
