"""Memory configurations: the memory that holds a tensor, and its split into shards."""

from dataclasses import dataclass

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.cores import CoreRangeSet
from tapestry.hardware.layouts.ttnn.shape import checked
from tapestry.hardware.layouts.ttnn.tile import Pair
from tapestry.hardware.layouts.ttnn.words import (
    BufferType,
    MemoryLayout,
    ShardDistributionStrategy,
    ShardMode,
    ShardOrientation,
)


@dataclass(frozen=True)
class ShardSpec:
    """A tensor seen as a matrix, split into shards of `shape` (height, width), one for each core.

    In LOGICAL mode `shape` splits the unpadded matrix and every shard is padded to `physical_shape`, or where that is
    None to the layout's alignment. A given `physical_shape` makes the mode LOGICAL.
    """

    grid: CoreRangeSet
    shape: Pair
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    mode: ShardMode = ShardMode.PHYSICAL
    physical_shape: Pair | None = None

    def __post_init__(self) -> None:
        checked(self.shape, "shard shape", smallest=1)
        if self.physical_shape is None:
            return
        checked(self.physical_shape, "physical shard shape", smallest=1)
        object.__setattr__(self, "mode", ShardMode.LOGICAL)
        if any(p < s for s, p in zip(self.shape, self.physical_shape, strict=True)):
            raise LayoutError(
                f"Physical shard shape {self.physical_shape} must be greater or equal to logical shard shape "
                f"{self.shape}!"
            )

    def __str__(self) -> str:
        physical = "std::nullopt" if self.physical_shape is None else braced(self.physical_shape)
        return (
            f"ShardSpec(grid={self.grid},shape={braced(self.shape)},orientation={self.orientation},"
            f"mode={self.mode},physical_shard_shape={physical})"
        )

    @property
    def is_logical(self) -> bool:
        """True if `shape` splits the unpadded matrix."""
        return self.mode is ShardMode.LOGICAL


@dataclass(frozen=True)
class NdShardSpec:
    """A tensor split along its last dimensions into shards of `shape`; leading dimensions it lacks are folded in."""

    shape: tuple[int, ...]
    grid: CoreRangeSet
    orientation: ShardOrientation = ShardOrientation.ROW_MAJOR
    distribution: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D

    def __post_init__(self) -> None:
        if not self.shape:
            raise LayoutError("Shard rank must be at least 1!")
        if 0 in self.shape:
            raise LayoutError("Shard shape must have non zero volume!")
        checked(self.shape, "shard shape", smallest=1)

    def __str__(self) -> str:
        grid = ", ".join(
            f'{{"start":{{"x":{r.start.x},"y":{r.start.y}}},"end":{{"x":{r.end.x},"y":{r.end.y}}}}}'
            for r in self.grid.ranges
        )
        return (
            f'{{"shard_shape":{list(self.shape)},"grid":[{grid}],"orientation":"{self.orientation}",'
            f'"shard_distribution_strategy":"{self.distribution}"}}'
        )


@dataclass(frozen=True)
class MemoryConfig:
    """The memory of a tensor: interleaved page by page over all banks, or sharded by `shard` or `nd_shard`.

    At most one of the two specs is given, the one the configuration was created with; the other follows from it for a
    tensor's shape (`hardware.layouts.ttnn.conversion`).
    """

    layout: MemoryLayout = MemoryLayout.INTERLEAVED
    buffer: BufferType = BufferType.DRAM
    shard: ShardSpec | None = None
    nd_shard: NdShardSpec | None = None

    def __post_init__(self) -> None:
        if self.shard is not None and self.nd_shard is not None:
            raise LayoutError(
                "a memory config is made with a shard spec or with an nd shard spec, not with both"
            )
        if self.nd_shard is not None:
            object.__setattr__(self, "layout", MemoryLayout.ND_SHARDED)
        elif self.shard is None and self.is_sharded:
            raise LayoutError("MemoryConfig must have Shard Spec specified for sharded memory layout")
        elif self.shard is not None and self.layout is MemoryLayout.ND_SHARDED:
            raise LayoutError("an ND sharded memory config has an nd shard spec, not a shard spec")
        elif self.shard is not None and not self.is_sharded:
            raise LayoutError(
                "an interleaved memory config has no shard spec; expected a sharded memory layout"
            )

    def __str__(self) -> str:
        return (
            f"MemoryConfig(memory_layout={self.layout},buffer_type={self.buffer},"
            f"shard_spec={self.shard or 'std::nullopt'},nd_shard_spec={self.nd_shard or 'std::nullopt'},"
            f"created_with_nd_shard_spec={int(self.nd_shard is not None)})"
        )

    @property
    def is_sharded(self) -> bool:
        """True if the tensor is split into shards."""
        return self.layout is not MemoryLayout.INTERLEAVED


DRAM_MEMORY_CONFIG = MemoryConfig(buffer=BufferType.DRAM)


def braced(numbers: tuple[int, ...]) -> str:
    """Format numbers as ttnn prints an array: `{32, 32}`."""
    return f"{{{', '.join(map(str, numbers))}}}"
