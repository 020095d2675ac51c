"""The layout of a tensor in a `tt.metal_layout` of a map, a grid and a memref, with its size and padding."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar

from tapestry.hardware.layouts.tt_metal.attribute import MetalAttribute
from tapestry.hardware.layouts.tt_metal.collapse import ALL_BUT_LAST, Intervals, collapsed_map
from tapestry.hardware.layouts.tt_metal.element import BLOCK_TILE, MetalElement, element, scalar
from tapestry.hardware.layouts.tt_metal.placement import CorePlacement
from tapestry.hardware.layouts.tt_metal.printing import printed_tensor
from tapestry.hardware.layouts.tt_metal.sharded import ShardedLayout
from tapestry.hardware.layouts.tt_metal.shards import MetalShards


@dataclass(frozen=True)
class MetalLayout(ShardedLayout):
    """A tensor `tensor<SHAPExDTYPE, #tt.metal_layout<...>>`: shape and scalar type with the attribute bound to them."""

    notation: ClassVar[str] = "tt_metal"

    dtype: str
    attribute: MetalAttribute

    def __post_init__(self) -> None:
        """Raise `LayoutError`, naming the rule, for a map or memref that does not fit the shape."""
        object.__setattr__(self, "element_bits", self.attribute.element.bits)
        object.__setattr__(self, "_shards", self.attribute.shards(self.shape))

    @classmethod
    def of(
        cls, shape: Sequence[int], dtype: str, collapse_intervals: Intervals = ALL_BUT_LAST,
        grid: Sequence[int] = (1, 1), tile: tuple[int, int] | None = BLOCK_TILE,
        memory_space: str = "l1", oob: str = "undef", dialect: str = "tt",
    ) -> "MetalLayout":  # fmt: skip
        """Build the layout of a tensor whose dimensions are joined by intervals, split over a grid and padded to
        tiles.

        `dtype` is that of the stored element; a block float (`bfp_bf8`) holds a tensor of f32.
        """
        stored = element(dtype, tile)
        linear = collapsed_map(tuple(shape), len(grid), tuple(collapse_intervals))
        attribute = MetalAttribute.derive(shape, linear, grid, stored, memory_space, oob, dialect)
        return cls(tuple(shape), scalar_name(dtype), attribute)

    @property
    def element(self) -> MetalElement:
        """The element of a shard: a scalar or a tile."""
        return self.attribute.element

    @property
    def padding_value(self) -> str:
        """The fill value of the padding, as a word."""
        return self.attribute.oob

    @property
    def shards(self) -> MetalShards:
        """The storage of the physical extents as shards."""
        found: MetalShards = self.__dict__["_shards"]
        return found

    @cached_property
    def placement(self) -> CorePlacement:
        """The placement of the elements in the physical extents."""
        return CorePlacement(self.attribute.linear, self.shape, self.shards.physical)

    def row_starts(self) -> tuple[int, ...]:
        """Return the physical row at which each index of the first dimension begins, the other dimensions at 0."""
        row = max(len(self.attribute.grid) - 2, 0)
        if not self.shape:
            return (int(self.attribute.linear.evaluate([])[row]),)
        rest = [0] * (len(self.shape) - 1)
        return tuple(int(self.attribute.linear.evaluate([i, *rest])[row]) for i in range(self.shape[0]))

    def __str__(self) -> str:
        return printed_tensor(self.shape, self.dtype, self.attribute)


@lru_cache(maxsize=256)
def scalar_name(dtype: str) -> str:
    """Return the tensor's scalar type for a stored data type: itself, or `f32` for a block float."""
    tiled = {"u32": "ui32", "u16": "ui16", "u8": "ui8"}
    if dtype.startswith("bfp"):
        return "f32"
    return scalar(tiled.get(dtype, dtype)).dtype
