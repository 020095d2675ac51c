"""A tensor in the newer `ttcore.metal_layout`, whose own shape is that of its grid and shards."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.aligned import AlignedAttribute
from tapestry.hardware.layouts.tt_metal.attribute import HIGHEST_RANK
from tapestry.hardware.layouts.tt_metal.element import MetalElement
from tapestry.hardware.layouts.tt_metal.placement import CorePlacement
from tapestry.hardware.layouts.tt_metal.printing import printed_aligned
from tapestry.hardware.layouts.tt_metal.sharded import ShardedLayout
from tapestry.hardware.layouts.tt_metal.shards import Extents, MetalShards


@dataclass(frozen=True)
class AlignedMetalLayout(ShardedLayout):
    """A layout `tensor<GRIDxSHARDxELEMENT, #ttcore.metal_layout<logical_shape = ...>>`; `shape` is the logical one."""

    notation: ClassVar[str] = "tt_metal"

    device_shape: Extents
    stored: MetalElement
    attribute: AlignedAttribute

    def __post_init__(self) -> None:
        """Raise `LayoutError` for a device shape that does not hold the aligned extents; the message names both."""
        object.__setattr__(self, "element_bits", self.stored.bits)
        object.__setattr__(self, "_shards", self._cut())

    @property
    def element(self) -> MetalElement:
        """The element of a shard: a scalar or a tile."""
        return self.stored

    @property
    def padding_value(self) -> str:
        """The value that fills the padding."""
        return self.attribute.oob or "undef"

    @property
    def shards(self) -> MetalShards:
        """The storage of the physical extents."""
        found: MetalShards = self.__dict__["_shards"]
        return found

    @cached_property
    def placement(self) -> CorePlacement:
        """The positions of the elements in the physical extents."""
        return CorePlacement(self.attribute.linear, self.shape, self.shards.physical)

    def __str__(self) -> str:
        return printed_aligned(self.device_shape, self.stored, self.attribute)

    def _cut(self) -> MetalShards:
        half, rest = divmod(len(self.device_shape), 2)
        grid, shard = self.device_shape[:half], self.device_shape[half:]
        aligned = self.attribute.physical_shape(self.stored.tile)
        if rest or half != len(aligned) or half > HIGHEST_RANK or 0 in grid:
            raise LayoutError(
                f"expected a device shape of a grid and a shard of rank {len(aligned)} each (aligned extents "
                f"{list(aligned)}), not {list(self.device_shape)}"
            )
        if any(g * s < size for g, s, size in zip(grid, shard, aligned, strict=True)):
            raise LayoutError(
                f"a grid of {list(grid)} shards of {list(shard)} does not hold the aligned extents {list(aligned)}"
            )
        rows, columns = self.stored.tile or (1, 1)
        scalars = (*shard[:-2], shard[-2] * rows, shard[-1] * columns) if half > 1 else shard
        physical = self.attribute.linear.size(self.shape)
        return MetalShards(physical, grid, scalars, scalars, self.stored.tile)
