"""Maps from grids of cores to chips and memory: virtual grids, a device's worker grid, the memory maps of L1.

Source: tt-mlir, docs/src/specs/device.md, and `createWorkerGrid`, `replaceMemoryMapSymbolsWithShardShape` of
lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp.
"""

from collections.abc import Sequence
from itertools import product
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.expression import (
    FLOORDIV,
    ZERO,
    ConstantExpr,
    Dim,
    Expression,
    Symbol,
    add,
    divide,
    modulo,
    multiply,
)
from tapestry.hardware.layouts.tt_metal.sharded import check_core


def physical_core(core_map: AffineMap, core: Sequence[int]) -> tuple[int, ...]:
    """Return the chip, row and column of a logical core under a device's grid map.

    Raises `LayoutError` for a map without these three results, and for a negative result.
    """
    place = tuple(int(v) for v in core_map.evaluate([int(c) for c in core]))
    if len(place) != 3 or min(place) < 0:
        raise LayoutError(
            f"expected a grid map to a chip, a row and a column, got {core_map} -> {list(place)}"
        )
    return place


def virtual_core(
    core_map: AffineMap, core: Sequence[int], virtual_grid: Sequence[int], device_grid: Sequence[int]
) -> tuple[int, ...]:
    """Return the row and column on one chip of a core of a virtual grid, say 1 x 64 on 8 x 8.

    The map leads to a row and a column, or to a chip, a row and a column.

    Raises `LayoutError` for a core outside the virtual grid, a grid of more cores than the device has, and a map that
    leads outside the device.
    """
    check_core(core, virtual_grid)
    if prod(virtual_grid) > prod(device_grid):
        raise LayoutError(
            f"the virtual grid {list(virtual_grid)} has {prod(virtual_grid)} cores, "
            f"the device grid {list(device_grid)} has {prod(device_grid)}"
        )
    results = len(core_map.results)
    place = core_map.evaluate([int(c) for c in core]) if results == 2 else physical_core(core_map, core)[1:]
    check_core(place, device_grid)
    return tuple(int(v) for v in place)


def placed_grid(
    grid: Sequence[int], core_map: AffineMap, device_grid: Sequence[int], chip_count: int = 1
) -> list[tuple[int, ...]]:
    """Return the chip, row and column of every core of a logical grid, row-major.

    Raises `LayoutError` for a core outside the chips, and if two cores of the grid share a place.
    """
    if prod(grid) > prod(device_grid) * chip_count:
        raise LayoutError(
            f"the grid {list(grid)} has {prod(grid)} cores, {chip_count} chips of {list(device_grid)} have "
            f"{prod(device_grid) * chip_count}"
        )
    owners: dict[tuple[int, ...], tuple[int, ...]] = {}
    for core in product(*map(range, grid)):
        place = physical_core(core_map, core)
        check_core(place, (chip_count, *device_grid))
        if place in owners:
            raise LayoutError(
                f"the grid map {core_map} puts cores {list(owners[place])} and {list(core)} at one place, {list(place)}"
            )
        owners[place] = core
    return list(owners)


def worker_grid(chip_grid: tuple[int, int], mesh_shape: Sequence[int]) -> tuple[tuple[int, ...], AffineMap]:
    """Build the logical grid of chips joined as a mesh, and the map from its cores to chip, row and column.

    The last two mesh dimensions place chips below and beside each other; the others number them.
    """
    if not mesh_shape or any(n < 1 for n in (*chip_grid, *mesh_shape)):
        raise LayoutError(
            f"expected positive grid dimensions, got chip {list(chip_grid)}, mesh {list(mesh_shape)}"
        )
    mesh = (*mesh_shape, *[1] * (2 - len(mesh_shape)))
    rank = len(mesh)
    grid = tuple(n * c for n, c in zip(mesh, (*[1] * (rank - 2), *chip_grid), strict=True))
    row, column = Dim(rank - 2), Dim(rank - 1)
    places: list[Expression] = [row, column]
    chip: list[Expression] = []
    stride = mesh[-1] * mesh[-2]
    for d in reversed(range(rank - 2)):
        chip.insert(0, multiply(Dim(d), ConstantExpr(stride)))
        stride *= mesh[d]
    if mesh[-2] > 1:
        chip.append(multiply(divide(row, ConstantExpr(chip_grid[0]), FLOORDIV), ConstantExpr(mesh[-1])))
        places[0] = modulo(row, ConstantExpr(chip_grid[0]))
    if mesh[-1] > 1:
        chip.append(divide(column, ConstantExpr(chip_grid[1]), FLOORDIV))
        places[1] = modulo(column, ConstantExpr(chip_grid[1]))
    return grid, AffineMap(rank, 0, (add(*chip), *places))


def l1_map(rank: int = 2) -> AffineMap:
    """Build the map of a physical index to (0, core, offset in elements), with the shard's extents as symbols.

    `(d0, d1)[s0, s1] -> (0, d0 floordiv s0, d1 floordiv s1, (d0 mod s0) * s1 + d1 mod s1)`.
    """
    offset: Expression = ZERO
    for i in range(rank):
        offset = (
            add(multiply(offset, Symbol(i)), modulo(Dim(i), Symbol(i))) if i else modulo(Dim(i), Symbol(i))
        )
    cores = (divide(Dim(i), Symbol(i), FLOORDIV) for i in range(rank))
    return AffineMap(rank, rank, (ZERO, *cores, offset))


def l1_location(shard_shape: Sequence[int], index: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Compute the core of a physical index, and its offset in that core's shard, in elements."""
    if len(shard_shape) != len(index) or any(n < 1 for n in shard_shape) or any(i < 0 for i in index):
        raise LayoutError(
            f"expected an index of the rank of the shard, no part negative, got {list(index)} and {list(shard_shape)}"
        )
    _, *core, offset = l1_map(len(index)).with_symbols(shard_shape).evaluate(list(index))
    return tuple(core), int(offset)
