"""The function `ttnn.create_sharded_memory_config`: a shard shape from a tensor shape, a core grid and a strategy.

The rules and the words of the errors are those of tt-metal's `ttnn/ttnn/core.py`.
"""

from collections.abc import Sequence

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.cores import Core, CoreGrid, CoreRange, CoreRangeSet
from tapestry.hardware.layouts.ttnn.memory import MemoryConfig, ShardSpec
from tapestry.hardware.layouts.ttnn.shape import Shape, checked, to_2d
from tapestry.hardware.layouts.ttnn.tile import Pair, round_up
from tapestry.hardware.layouts.ttnn.words import BufferType, MemoryLayout, ShardOrientation

STRATEGIES = ("HEIGHT", "WIDTH", "BLOCK")
TILE_HEIGHT = 32

CoreGridLike = CoreGrid | Sequence[CoreGrid] | CoreRangeSet


def create_sharded_memory_config(
    shape: Shape | Sequence[int],
    core_grid: CoreGridLike,
    strategy: str,
    orientation: str | None = None,
    *,
    use_height_and_width_as_shard_shape: bool = False,
) -> MemoryConfig:
    """Build the sharded L1 memory config of a tensor; every core of the grid gets an equal shard.

    `shape` is the tensor's, or with `use_height_and_width_as_shard_shape` ends in the shard's height and width
    (width and height for COL_MAJOR). `strategy` is HEIGHT, WIDTH or BLOCK.

    Raises:
        LayoutError: in ttnn's words, where an argument is of a wrong kind or the grid does not divide the tensor.
    """
    dims = _dims(shape)
    _check_grid_type(core_grid)
    layout = _layout(strategy)
    order = _orientation(orientation)
    grid = _cores(core_grid)
    if use_height_and_width_as_shard_shape:
        return _config(layout, grid, _given_shard(dims, order), order)
    if isinstance(core_grid, CoreRangeSet):
        raise LayoutError("height and width must be shard shape with CoreRangeSet")
    if not isinstance(core_grid, CoreGrid):
        raise LayoutError("Invalid core_grid: two core grids need use_height_and_width_as_shard_shape")
    parts = _parts(layout, core_grid.y, core_grid.x, order)
    matrix = to_2d(dims)
    if any(size % part for size, part in zip(matrix, parts, strict=True)):
        raise LayoutError(
            f"Invalid sharding core_grid: {matrix[0]} x {matrix[1]} elements do not divide into "
            f"{parts[0]} x {parts[1]} shards"
        )
    return _config(layout, grid, (matrix[0] // parts[0], matrix[1] // parts[1]), order)


def create_padded_sharded_memory_config(
    shape: Shape | Sequence[int],
    core_grid: CoreGridLike,
    strategy: str,
    orientation: str | None = None,
    *,
    use_height_and_width_as_shard_shape: bool = False,
    tile_layout: bool = False,
) -> MemoryConfig:
    """Build a sharded config for any core ranges, with shards rounded up (`ttnn.create_sharded_memory_config_`).

    `strategy` may also be a memory layout's name, WIDTH_SHARDED. With `tile_layout` the height is first rounded up to
    whole tiles (BLOCK) or cores (HEIGHT).

    Raises:
        LayoutError: in ttnn's words, see `create_sharded_memory_config`; "Incorrect tensor shape" for no whole tiles.
    """
    dims = _dims(shape)
    _check_grid_type(core_grid)
    layout = _layout(str(strategy).removesuffix("_SHARDED"))
    order = _orientation(orientation)
    grid = _cores(core_grid)
    if use_height_and_width_as_shard_shape:
        shard = _given_shard(dims, order)
    else:
        box, (rows, columns) = grid.bounding_box(), to_2d(dims)
        block = layout is MemoryLayout.BLOCK_SHARDED
        if block and box.core_count != grid.core_count:
            raise LayoutError("Invalid CoreRangeSet for block sharding strategy")
        sides = (box.rows, box.columns) if block else (1, grid.core_count)
        high, wide = _parts(layout, *sides, order)
        if tile_layout and layout is not MemoryLayout.WIDTH_SHARDED:
            rows = round_up(rows, high * TILE_HEIGHT if block else high)
        shard = (-(-rows // high), -(-columns // wide))
    if tile_layout and shard[0] % TILE_HEIGHT and shard[1] % TILE_HEIGHT:
        raise LayoutError("Incorrect tensor shape")
    return _config(layout, grid, shard, order)


def _parts(layout: MemoryLayout, rows: int, columns: int, order: ShardOrientation) -> Pair:
    """Compute the numbers of shards along height and along width."""
    if layout is MemoryLayout.HEIGHT_SHARDED:
        return rows * columns, 1
    if layout is MemoryLayout.WIDTH_SHARDED:
        return 1, rows * columns
    return (rows, columns) if order is ShardOrientation.ROW_MAJOR else (columns, rows)


def _given_shard(dims: tuple[int, ...], order: ShardOrientation) -> Pair:
    height, width = dims[-2:]
    return (height, width) if order is ShardOrientation.ROW_MAJOR else (width, height)


def _config(layout: MemoryLayout, grid: CoreRangeSet, shard: Pair, order: ShardOrientation) -> MemoryConfig:
    return MemoryConfig(layout, BufferType.L1, ShardSpec(grid, shard, order))


def _dims(shape: object) -> tuple[int, ...]:
    dims = shape.dims if isinstance(shape, Shape) else shape
    if not isinstance(dims, list | tuple) or not all(isinstance(d, int) for d in dims):
        raise LayoutError("Invalid input shape")
    if len(dims) < 2:
        raise LayoutError(f"Invalid input shape: expected at least 2 dimensions, not {len(dims)}")
    return checked(dims)


def _check_grid_type(core_grid: object) -> None:
    if not isinstance(core_grid, CoreGrid | CoreRangeSet | list | tuple):
        raise LayoutError("Invalid core_grid type")


def _layout(strategy: object) -> MemoryLayout:
    if strategy not in STRATEGIES:
        raise LayoutError(f"Invalid sharding strategy: {strategy!r}; expected one of {', '.join(STRATEGIES)}")
    return MemoryLayout[f"{strategy}_SHARDED"]


def _orientation(orientation: object) -> ShardOrientation:
    if orientation is None:
        return ShardOrientation.ROW_MAJOR
    if orientation not in ShardOrientation.__members__:
        raise LayoutError(f"Invalid shard orientation: {orientation!r}; expected ROW_MAJOR or COL_MAJOR")
    return ShardOrientation[str(orientation)]


def _grid(part: object) -> CoreGrid:
    if not isinstance(part, CoreGrid):
        raise LayoutError("Invalid core_grid type")
    return part


def _cores(core_grid: CoreGridLike) -> CoreRangeSet:
    if isinstance(core_grid, CoreRangeSet):
        return core_grid
    if isinstance(core_grid, CoreGrid):
        return core_grid.cores
    if len(core_grid) != 2:
        raise LayoutError(f"Invalid core_grid: expected 2 core grids, not {len(core_grid)}")
    first, last = (_grid(part) for part in core_grid)
    row = CoreRange(Core(0, first.y), Core(last.x - 1, first.y))
    return CoreRangeSet((*first.cores.ranges, row))
