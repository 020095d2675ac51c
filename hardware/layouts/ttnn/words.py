"""The enumerations of ttnn: page layouts, memory layouts, buffer types, orientations, storages."""

from enum import Enum
from typing import Self

from tapestry.hardware.layouts.layout import LayoutError


class Word(Enum):
    """An enumeration whose values are printed as ttnn prints them, `TensorMemoryLayout::INTERLEAVED`."""

    def __str__(self) -> str:
        return f"{self.__class__.kind()}::{self.name}"

    @classmethod
    def kind(cls) -> str:
        """Return the name of the enumeration in ttnn."""
        return cls.__name__

    @classmethod
    def named(cls, text: str) -> Self:
        """Find the value of a name, with or without its enumeration in front; `LayoutError` lists the names."""
        name = text.replace("::", ".").rpartition(".")[2].upper()
        if name not in cls.__members__:
            raise LayoutError(f"{text!r} is no {cls.kind()}; expected one of {', '.join(cls.__members__)}")
        return cls[name]


class PageLayout(Word):
    """The order of elements: rows one after the other, or tiles."""

    ROW_MAJOR = 0
    TILE = 1

    @classmethod
    def kind(cls) -> str:
        """Return the name in ttnn."""
        return "Layout"

    @classmethod
    def named(cls, text: str) -> Self:
        """Find the value of a name; `ttnn.TILE_LAYOUT` is accepted too."""
        return super().named(text.removesuffix("_LAYOUT"))


class MemoryLayout(Word):
    """The distribution of a tensor over banks or cores."""

    INTERLEAVED = 0
    HEIGHT_SHARDED = 2
    WIDTH_SHARDED = 3
    BLOCK_SHARDED = 4
    ND_SHARDED = 5

    @classmethod
    def kind(cls) -> str:
        """Return the name in ttnn."""
        return "TensorMemoryLayout"

    @classmethod
    def named(cls, text: str) -> Self:
        """Find the value of a name; a strategy's name (`HEIGHT`) is accepted too."""
        name = text.upper()
        return super().named(f"{name}_SHARDED" if name in ("HEIGHT", "WIDTH", "BLOCK", "ND") else text)


class BufferType(Word):
    """The memory that holds a buffer."""

    DRAM = 0
    L1 = 1
    SYSTEM_MEMORY = 2
    L1_SMALL = 3
    TRACE = 4


class ShardOrientation(Word):
    """The order in which shards are assigned to the cores of a grid."""

    ROW_MAJOR = 0
    COL_MAJOR = 1


class ShardMode(Word):
    """The target of a shard shape: the padded tensor (PHYSICAL), or the logical one, padded afterwards (LOGICAL)."""

    PHYSICAL = 0
    LOGICAL = 1


class ShardDistributionStrategy(Word):
    """The assignment of the shards of an ND sharding to cores: one by one, grid on grid, or in equal runs."""

    ROUND_ROBIN_1D = 0
    GRID_2D = 1
    CONTIGUOUS_1D = 2
