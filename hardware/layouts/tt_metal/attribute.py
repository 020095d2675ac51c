"""The attribute `#tt.metal_layout<linear, oob, grid, memref>`: its rules, derived values and re-derivations.

Source: tt-mlir at commit c60496c369~1, docs/src/specs/tensor-layout.md, `MetalLayoutAttr` of
include/ttmlir/Dialect/TTCore/IR/TTCoreOpsTypes.td and lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.collapse import ALL_BUT_LAST, Intervals, collapsed_map
from tapestry.hardware.layouts.tt_metal.element import MetalElement
from tapestry.hardware.layouts.tt_metal.shards import Extents, MetalShards

OOB_VALUES = ("undef", "zero", "one", "inf", "neginf")
"""The values that fill padding (tt-mlir's OOBVal)."""

MEMORY_SPACES = ("system", "mmio", "dram", "l1", "dst")
"""System, SystemMMIO, DeviceDRAM, DeviceL1 and RegisterDst (tt-mlir's MemorySpace)."""

HIGHEST_RANK = 16
"""Dimensions of a grid."""

HIGHEST_TENSOR_RANK = 64
"""Dimensions of a tensor, as many as numpy's arrays can have."""

CoreRanges = tuple[tuple[tuple[int, int], tuple[int, int]], ...]


@dataclass(frozen=True)
class MetalAttribute:
    """The storage of a tensor on a grid of cores, without the tensor's shape.

    `memref_shape` counts elements of a shard (tiles if `element` is one). `grid_map` is the grid's own map to physical
    cores, if given; `memory_layout` the fifth field of older texts (`interleaved`, `block_sharded`);
    `core_ranges` the cores that a `ttnn` text names, first and last of each rectangle. `dialect`, the
    spelling `tt`, `ttcore` or `ttnn`, does not count in comparisons.
    """

    linear: AffineMap
    oob: str
    grid: Extents
    memref_shape: Extents
    element: MetalElement
    memory_space: str
    memory_layout: str | None = None
    grid_map: AffineMap | None = None
    core_ranges: CoreRanges = ()
    dialect: str = field(default="tt", compare=False)

    def __post_init__(self) -> None:
        """Raise `LayoutError` for ranks and values that no tensor could have; the message names them and the rule."""
        rank = len(self.grid)
        if rank > HIGHEST_RANK:
            raise LayoutError(f"expected a grid of at most {HIGHEST_RANK} dimensions, not {rank}")
        if len(self.linear.results) != rank:
            raise LayoutError(
                f"the number of results of the affine map must match exactly the rank of the grid shape: "
                f"{self.linear} has {len(self.linear.results)}, the grid {_by_x(self.grid)} has rank {rank}"
            )
        if len(self.memref_shape) != rank:
            raise LayoutError(
                f"the memref must have a shape with rank equal to grid: memref {_by_x(self.memref_shape)} has rank "
                f"{len(self.memref_shape)}, the grid {_by_x(self.grid)} has rank {rank}"
            )
        if any(n < 1 for n in self.grid):
            raise LayoutError(f"expected positive grid dimensions, not {_by_x(self.grid)}")
        if self.linear.symbol_count:
            raise LayoutError(f"expected an affine map without symbols, not {self.linear}")
        check_choice("an out-of-bounds value", self.oob, OOB_VALUES)
        if self.dialect != "ttnn":
            check_choice("a memory space", self.memory_space, MEMORY_SPACES)
        if self.element.tile is not None:
            check_tileable(rank)

    @classmethod
    def derive(
        cls, shape: Sequence[int], linear: AffineMap, grid: Sequence[int], element: MetalElement,
        memory_space: str = "l1", oob: str = "undef", dialect: str = "tt",
    ) -> "MetalAttribute":  # fmt: skip
        """Derive the attribute of a tensor: its extents through the map, divided by the grid, then padded to tiles."""
        check_map(shape, linear)
        if len(linear.results) != len(grid):
            memref: Extents = tuple(grid)
        else:
            if any(n < 1 for n in grid):
                raise LayoutError(f"expected positive grid dimensions, not {_by_x(grid)}")
            memref = in_tiles(cut(linear.size(shape), grid), element)
        return cls(linear, oob, tuple(grid), memref, element, memory_space, dialect=dialect)

    @property
    def scalar_memref_shape(self) -> Extents:
        """The extents of a stored shard in scalars (`getShardShape(convertTileToScalar=true)`)."""
        if self.element.tile is None:
            return self.memref_shape
        *outer, rows, columns = self.memref_shape
        return (*outer, rows * self.element.tile[0], columns * self.element.tile[1])

    @property
    def memref_size_bytes(self) -> int:
        """The number of bytes of one shard."""
        return prod(self.memref_shape) * self.element.size_bytes

    @property
    def shard_stride_bytes(self) -> Extents:
        """The bytes from an element of a shard to the next along each dimension (`getShardStride`)."""
        size = self.element.size_bytes
        return tuple(size * prod(self.memref_shape[i + 1 :]) for i in range(len(self.memref_shape)))

    @property
    def shard_grid(self) -> Extents:
        """The grid that divides the extents: height- and width-sharded `ttnn` grids list cores for one dimension."""
        if self.dialect == "ttnn" and len(self.grid) == 2:
            if self.memory_layout == "height_sharded":
                return (prod(self.grid), 1)
            if self.memory_layout == "width_sharded":
                return (1, prod(self.grid))
        return self.grid

    def physical_shape(self, shape: Sequence[int]) -> Extents:
        """Compute the extents that a tensor takes after its dimensions are joined, without padding."""
        return self.linear.size(shape)

    def shard_shape(self, shape: Sequence[int]) -> Extents:
        """Compute the scalars of a tensor that each core gets: the physical extents divided by the grid, rounded up."""
        return cut(self.linear.size(shape), self.shard_grid)

    def strides(self, shape: Sequence[int]) -> Extents:
        """Compute the scalars from an element to the next of each dimension, in the unpadded physical extents."""
        physical = self.physical_shape(shape)
        origin = self.linear.evaluate([0] * len(shape))
        found = [0] * len(shape)
        for result in reversed(range(len(physical))):
            for dim in self.linear.used_dims[result]:
                one = self.linear.evaluate([int(d == dim) for d in range(len(shape))])
                found[dim] = prod(physical[result + 1 :]) * (one[result] - origin[result])
        return tuple(found)

    def shards(self, shape: Sequence[int]) -> MetalShards:
        """Build the storage of a tensor's physical extents; shards of the `ttnn` spelling are whole tiles apart.

        Raises `LayoutError` if the memref is smaller than the part of a core.
        """
        check_map(shape, self.linear)
        physical, grid = self.physical_shape(shape), self.shard_grid
        stored = self.scalar_memref_shape
        pitch = stored if self.dialect == "ttnn" else cut(physical, grid)
        held = tuple(p * g for p, g in zip(pitch, grid, strict=True))
        if any(s < p for s, p in zip((*stored, *held), (*pitch, *physical), strict=True)):
            needed = in_tiles(cut(physical, grid), self.element)
            raise LayoutError(
                f"memref {_by_x(self.memref_shape)} is smaller than the shard: {self.linear} takes tensor "
                f"{_by_x(shape)} to {_by_x(physical)}, over the grid {_by_x(grid)} that is "
                f"{_by_x(cut(physical, grid))} scalars a core; expected a memref of {_by_x(needed)}"
            )
        return MetalShards(physical, grid, pitch, stored, self.element.tile)

    def with_grid(
        self, shape: Sequence[int], grid: Sequence[int], intervals: Intervals = ALL_BUT_LAST
    ) -> "MetalAttribute":
        """Derive an attribute of the same element, memory and padding over another grid, for a tensor of that shape."""
        linear = collapsed_map(tuple(shape), len(grid), tuple(intervals))
        return self.derive(shape, linear, grid, self.element, self.memory_space, self.oob, self.dialect)

    def with_element(self, element: MetalElement) -> "MetalAttribute":
        """Replace the element; the shard's scalars stay, so that tile padding remains when the tiles are removed."""
        memref = in_tiles(self.scalar_memref_shape, element)
        return replace(self, element=element, memref_shape=memref)

    def with_memory_space(self, memory_space: str) -> "MetalAttribute":
        """Replace the memory space; the shards stay the same."""
        return replace(self, memory_space=memory_space)

    def with_shard_shape(self, shard_shape: Sequence[int]) -> "MetalAttribute":
        """Replace the shards by ones of other extents in scalars, padded to tiles."""
        if len(shard_shape) != len(self.grid):
            raise LayoutError(
                f"the memref must have a shape with rank equal to grid: shard {_by_x(shard_shape)} has rank "
                f"{len(shard_shape)}, the grid {_by_x(self.grid)} has rank {len(self.grid)}"
            )
        return replace(self, memref_shape=in_tiles(tuple(shard_shape), self.element))


def cut(physical: Sequence[int], grid: Sequence[int]) -> Extents:
    """Divide extents by a grid, rounding up."""
    return tuple(-(-size // cores) for size, cores in zip(physical, grid, strict=True))


def in_tiles(scalars: Sequence[int], element: MetalElement) -> Extents:
    """Convert extents in scalars to elements: the last two divided by the tile, rounded up."""
    if element.tile is None:
        return tuple(scalars)
    check_tileable(len(scalars))
    *outer, rows, columns = scalars
    return (*outer, -(-rows // element.tile[0]), -(-columns // element.tile[1]))


def check_tileable(rank: int) -> None:
    """Raise `LayoutError` for tiles of a memref of fewer than two dimensions."""
    if rank < 2:
        raise LayoutError(f"expected at least 2D shape to tilize, not a memref of rank {rank}")


def check_map(shape: Sequence[int], linear: AffineMap) -> None:
    """Raise `LayoutError` for a map that is not of a tensor's rank or leaves one of its dimensions out."""
    check_rank(shape)
    if linear.dim_count != len(shape):
        raise LayoutError(
            f"the number of dims in the affine map must match exactly the rank of the tensor: {linear} has "
            f"{linear.dim_count}, tensor {_by_x(shape)} has rank {len(shape)}"
        )
    if linear.unused_dims:
        raise LayoutError(
            f"Dim does not participate in AffineMap RHS: d{linear.unused_dims[0]} is in no result of {linear}"
        )


def check_rank(shape: Sequence[int]) -> None:
    """Raise `LayoutError` for tensors of more dimensions than arrays can have."""
    if len(shape) > HIGHEST_TENSOR_RANK:
        raise LayoutError(f"expected a tensor of at most {HIGHEST_TENSOR_RANK} dimensions, not {len(shape)}")


def check_choice(what: str, word: str, choices: Sequence[str]) -> None:
    """Raise `LayoutError` for a word that is none of the choices."""
    if word not in choices:
        raise LayoutError(f"expected {what} of {', '.join(choices)}, not {word!r}")


def _by_x(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents)) or "of rank 0"
