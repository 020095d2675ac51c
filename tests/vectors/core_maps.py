"""Maps from grids of cores to chips and memory, which cases give as affine maps: virtual grids and the map of L1.

Source: tt-mlir, docs/src/specs/device.md, and `replaceMemoryMapSymbolsWithShardShape` of
lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp.
"""

from collections.abc import Sequence
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap, parse_affine_map
from tapestry.hardware.layouts.tt_metal.sharded import check_core


def physical_core(core_map: AffineMap, core: Sequence[int]) -> tuple[int, ...]:
    """Return the chip, row and column of a logical core under a device's grid map.

    Raises `LayoutError` for a map without these three results, and for a negative result.
    """
    place = tuple(int(v) for v in core_map.evaluate([int(c) for c in core]))
    if len(place) != 3 or min(place) < 0:
        raise LayoutError(
            f"expected a grid map to a chip, a row and a column, not {core_map} -> {list(place)}"
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


def l1_map(rank: int = 2) -> AffineMap:
    """Build the map of a physical index to (0, core, offset in elements), with the shard's extents as symbols."""
    dims, sizes = ([f"{letter}{k}" for k in range(rank)] for letter in "ds")
    offset = f"{dims[0]} mod {sizes[0]}"
    for dim, size in zip(dims[1:], sizes[1:], strict=True):
        offset = f"({offset}) * {size} + {dim} mod {size}"
    cores = ", ".join(f"{dim} floordiv {size}" for dim, size in zip(dims, sizes, strict=True))
    return parse_affine_map(f"({', '.join(dims)})[{', '.join(sizes)}] -> (0, {cores}, {offset})")


def l1_location(shard_shape: Sequence[int], index: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Compute the core of a physical index, and its offset in that core's shard, in elements."""
    if len(shard_shape) != len(index) or any(n < 1 for n in shard_shape) or any(i < 0 for i in index):
        raise LayoutError(
            f"expected an index of the rank of the shard, no part negative, not {list(index)} and {list(shard_shape)}"
        )
    _, *core, offset = l1_map(len(index)).evaluate(list(index), list(shard_shape))
    return tuple(core), int(offset)
