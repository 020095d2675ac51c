"""Pages: the pieces in which a tensor is stored and moved, a row or a tile, and the alignments they require."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.dtypes import DataType
from tapestry.hardware.layouts.ttnn.memory import MemoryConfig
from tapestry.hardware.layouts.ttnn.tile import DEFAULT_TILE, Pair, TtnnTile, round_up
from tapestry.hardware.layouts.ttnn.words import MemoryLayout, PageLayout

RECOMMENDED_ALIGNMENT_BYTES = 64
"""The largest memory alignment of all devices (tt-metal: `RECOMMENDED_MEMORY_ALIGNMENT_BYTES`)."""


@dataclass(frozen=True)
class PageConfig:
    """A page configuration: row-major pages, or tiles. The rules are tt-metal's `page_config.cpp`."""

    layout: PageLayout
    tile: TtnnTile = DEFAULT_TILE

    def __post_init__(self) -> None:
        if self.layout is PageLayout.ROW_MAJOR:
            object.__setattr__(self, "tile", DEFAULT_TILE)

    def __str__(self) -> str:
        kind = "TilePageConfig" if self.is_tiled else "RowMajorPageConfig"
        return f"PageConfig(config={kind}(tile={self.tile}))"

    @property
    def is_tiled(self) -> bool:
        """True if a page is a tile."""
        return self.layout is PageLayout.TILE

    def default_alignment(self, memory: MemoryConfig) -> tuple[int, ...]:
        """Return the extents that dimensions are padded to, last ones last: tiles, or the width of a shard's row."""
        if memory.shard is not None and memory.shard.physical_shape is not None:
            return memory.shard.physical_shape
        if self.is_tiled:
            return self.tile.shape
        if memory.shard is not None:
            return memory.shard.shape[1:]
        return memory.nd_shard.shape[-1:] if memory.nd_shard is not None else (1,)

    def check_alignment(self, alignment: Sequence[int], memory: MemoryConfig) -> None:
        """Raise `LayoutError` if whole pages do not fit into an alignment."""
        if self.is_tiled:
            self._check_tiles(alignment)
        elif memory.shard is not None and memory.layout is not MemoryLayout.HEIGHT_SHARDED:
            width = (memory.shard.physical_shape or memory.shard.shape)[1]
            if width % alignment[-1]:
                raise LayoutError(
                    f"Alignment mismatch for sharded tensor: Expected physical shard shape {width} to be aligned to "
                    f"{alignment[-1]} along the width for Row Major layout."
                )

    def _check_tiles(self, alignment: Sequence[int]) -> None:
        height, width = self.tile.shape
        shown = f"Wrong custom Tensor Layout alignment Alignment({list(alignment)}). For Tile layout"
        if len(alignment) < 2:
            raise LayoutError("Alignment should have at least 2 dimensions for Tile layout")
        if alignment[-1] % width:
            raise LayoutError(f"{shown} innermost dimension should be multiple of tile width {width}.")
        if alignment[-2] % height:
            raise LayoutError(
                f"{shown} second innermost dimension should be multiple of tile height {height}."
            )

    def page_shape(self, physical: Pair, dtype: DataType, memory: MemoryConfig, shard: Pair | None) -> Pair:
        """Return the rows and columns of a page: a tile, or a row of the tensor or of its shard."""
        if self.is_tiled:
            return self.tile.shape
        if 0 in physical:
            return 1, 4 // dtype.row_major_bytes
        if shard is not None and memory.layout is not MemoryLayout.HEIGHT_SHARDED:
            return 1, shard[1]
        return 1, (memory.nd_shard.shape[-1] if memory.nd_shard is not None else physical[1])

    def page_bytes(self, page: Pair, dtype: DataType) -> int:
        """Compute the size of a page (rows, columns) in bytes."""
        if not self.is_tiled:
            return prod(page) * dtype.row_major_bytes
        return prod(page) // self.tile.element_count * self.tile.size_bytes(dtype)

    def element_bits(self, dtype: DataType) -> int:
        """Return the number of bits of one stored element."""
        return dtype.bits if self.is_tiled else 8 * dtype.row_major_bytes

    def required_shard_alignment(self) -> tuple[int, ...]:
        """Return the numbers that have to divide the last dimensions of a shard."""
        return self.tile.shape if self.is_tiled else (1,)

    def recommended_shard_alignment(self, dtype: DataType) -> tuple[int, ...]:
        """Return the recommended divisors of a shard's last dimensions, so that rows are aligned in every memory."""
        size = dtype.row_major_bytes
        return self.tile.shape if self.is_tiled else (lcm(RECOMMENDED_ALIGNMENT_BYTES, size) // size,)


def aligned_page_bytes(page_bytes: int, alignment_bytes: int) -> int:
    """Compute the bytes a page takes in a bank: aligned to 16 in L1; to 32 in Wormhole's DRAM, 64 in Blackhole's."""
    return round_up(page_bytes, alignment_bytes)


def bank_of_page(page: int, bank_count: int) -> Pair:
    """Find the bank of a page of an interleaved tensor, and its index in that bank: pages go round robin."""
    if page < 0 or bank_count < 1:
        raise LayoutError(
            f"page {page} has no place in {bank_count} banks; expected a page from 0 and a bank"
        )
    return page % bank_count, page // bank_count
