"""Tensor layouts: element, pages, memory and alignment; padding, strides and sizes follow from a shape."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.ttnn.distribution import Distribution
from tapestry.hardware.layouts.ttnn.dtypes import DataType
from tapestry.hardware.layouts.ttnn.memory import DRAM_MEMORY_CONFIG, MemoryConfig
from tapestry.hardware.layouts.ttnn.pages import PageConfig, aligned_page_bytes
from tapestry.hardware.layouts.ttnn.shape import check_volume, checked, to_2d
from tapestry.hardware.layouts.ttnn.tile import Pair, round_up
from tapestry.hardware.layouts.ttnn.words import MemoryLayout, ShardDistributionStrategy


@dataclass(frozen=True)
class TensorLayout:
    """The equivalent of ttnn's TensorLayout; the rules are tt-metal's `tensor_layout.cpp`.

    `alignment` (last dimensions last) is raised to what pages and shards need, so equal layouts compare equal.
    """

    dtype: DataType
    page: PageConfig
    memory: MemoryConfig = DRAM_MEMORY_CONFIG
    alignment: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        checked(self.alignment, "alignment", smallest=1)
        default = self.page.default_alignment(self.memory)
        rank = max(len(default), len(self.alignment))
        wanted = (1,) * (rank - len(self.alignment)) + self.alignment
        needed = (1,) * (rank - len(default)) + default
        object.__setattr__(self, "alignment", tuple(map(round_up, wanted, needed)))
        self._check()

    def __str__(self) -> str:
        return (
            f"TensorLayout(dtype={self.dtype},page_config={self.page},memory_config={self.memory},"
            f"alignment=Alignment({list(self.alignment)}))"
        )

    def _check(self) -> None:
        if self.memory.shard is not None and len(self.alignment) > 2:
            raise LayoutError("Tensor must be interleaved if alignment has rank greater than 2!")
        self.page.check_alignment(self.alignment, self.memory)
        spec, shard = self.memory.shard, self.physical_shard
        if spec is not None and spec.physical_shape not in (None, self.alignment):
            raise LayoutError(
                f"Alignment Alignment({list(self.alignment)}) must be same as physical shard shape "
                f"{spec.physical_shape} provided in shard spec!"
            )
        if not self.page.is_tiled or shard is None:
            return
        height, width = self.page.tile.shape
        if len(shard) < 2 or shard[-2] % height or shard[-1] % width:
            shown = f"({', '.join(map(str, shard))})" if self.memory.shard else f"Shape({list(shard)})"
            raise LayoutError(f"Physical shard shape {shown} must be tile {{{height}, {width}}} sized!")

    def _aligned(self, at: int) -> int:
        """Return the alignment of a dimension counted from the last one (-1); 1 where there is none."""
        return self.alignment[at] if -at <= len(self.alignment) else 1

    @property
    def physical_shard(self) -> tuple[int, ...] | None:
        """The shard shape in memory, padding included; None without sharding."""
        if self.memory.nd_shard is not None:
            return self.memory.nd_shard.shape
        spec = self.memory.shard
        if spec is None or not spec.is_logical:
            return None if spec is None else spec.shape
        height, width = spec.shape
        return spec.physical_shape or (
            round_up(height, self._aligned(-2)),
            round_up(width, self._aligned(-1)),
        )

    @property
    def physical_shard_2d(self) -> Pair | None:
        """The shard shape of a 2-D sharding; None without one."""
        shard = self.physical_shard
        return None if shard is None or self.memory.shard is None else (shard[0], shard[1])

    def physical_size(self, shape: Sequence[int]) -> Pair:
        """Compute the matrix (rows, columns) that is stored, aligned; its last shards are not padded to full ones.

        Every dimension is aligned before the next one is multiplied in: [5, 4, 3, 2] in tiles is 640 x 32.
        """
        shard = self.physical_shard_2d
        if self.memory.shard is not None and self.memory.shard.is_logical and shard is not None:
            logical = self.memory.shard.shape
            rows, columns = (
                total // cut * stored + round_up(total % cut, self._aligned(at))
                for total, cut, stored, at in zip(to_2d(shape), logical, shard, (-2, -1), strict=True)
            )
            return _matrix(rows, columns)
        rows = columns = 1
        for at in range(-1, -max(len(shape), len(self.alignment)) - 1, -1):
            size = shape[at] if -at <= len(shape) else 1
            if at == -1:
                columns = round_up(size, self._aligned(at))
            else:
                rows = round_up(rows * size, self._aligned(at))
        return _matrix(rows, columns)

    def padded_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Compute the shape with every dimension padded, at least of the alignment's rank.

        Raises:
            LayoutError: no padding of single dimensions gives the requested alignment.
        """
        rank = max(len(shape), len(self.alignment))
        padded = [1] * (rank - len(shape)) + list(shape)
        below = 1
        for at in range(-1, -len(self.alignment) - 1, -1):
            multiple = self.alignment[at]
            if at >= -2:
                padded[at] = round_up(padded[at], multiple)
            elif below % multiple and multiple % below:
                raise LayoutError(
                    f"Padded shape can't be deducted from TensorLayout parameters Alignment({list(self.alignment)}) "
                    f"and Shape {list(shape)}"
                )
            elif below % multiple:
                padded[at] = round_up(padded[at], multiple // below)
            below *= padded[at] if at < -1 else 1
        checked(padded, "padded shape")
        return tuple(padded)

    def strides(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Compute the strides ttnn reports: each the next one times its dimension, rounded up to its alignment.

        They are not offsets into tiles: [5, 4, 3, 2] in tiles has (384, 96, 32, 1) as in tt-metal's own test.
        """
        strides = [1] * len(shape)
        for at in range(len(shape) - 2, -1, -1):
            strides[at] = round_up(strides[at + 1] * shape[at + 1], self._aligned(at + 1 - len(shape)))
        return tuple(strides)

    def page_shape(self, shape: Sequence[int]) -> Pair:
        """Return the rows and columns of a page."""
        return self.page.page_shape(
            self.physical_size(shape), self.dtype, self.memory, self.physical_shard_2d
        )

    def page_bytes(self, shape: Sequence[int]) -> int:
        """Compute the size of a page in bytes, unaligned."""
        return self.page.page_bytes(self.page_shape(shape), self.dtype)

    def page_count(self, shape: Sequence[int]) -> int:
        """Count the pages of the tensor, without the padding of last shards.

        Raises:
            LayoutError: pages do not fill the physical size.
        """
        physical, page = self.physical_size(shape), self.page_shape(shape)
        if 0 in physical:
            return 0
        if physical[0] % page[0] or physical[1] % page[1]:
            raise LayoutError(f"Physical size {physical} must be multiple of page size {page}")
        return prod(physical) // prod(page)

    def packed_bytes(self, shape: Sequence[int]) -> int:
        """Compute the size of the tensor's pages in bytes, a part of the notation that no caller here needs.

        Source: `TensorLayout::compute_packed_buffer_size_bytes` of tt-metal, whose published cases check it.
        """
        return self.page_count(shape) * self.page_bytes(shape)

    def distribution(self, shape: Sequence[int]) -> Distribution:
        """Build the distribution of the pages of a sharded tensor over its cores.

        Raises:
            LayoutError: the tensor is not sharded, pages do not fill it, or the cores do not fit the shards.
        """
        self.page_count(shape)
        page = self.page_shape(shape)
        if self.memory.nd_shard is not None:
            nd = self.memory.nd_shard
            return Distribution.of_elements(
                self.padded_shape(shape), nd.shape, page, nd.grid, nd.orientation, nd.distribution
            )
        spec, shard = self.memory.shard, self.physical_shard
        if spec is None or shard is None:
            raise LayoutError("an interleaved tensor has no shards; expected a sharded memory config")
        block = self.memory.layout is MemoryLayout.BLOCK_SHARDED
        strategy = ShardDistributionStrategy.GRID_2D if block else ShardDistributionStrategy.ROUND_ROBIN_1D
        matrix = self.physical_size(shape)
        return Distribution.of_elements(matrix, shard, page, spec.grid, spec.orientation, strategy)

    def bytes_per_bank(self, shape: Sequence[int], alignment_bytes: int, bank_count: int) -> int:
        """Compute the bytes the tensor takes in the fullest bank, a part of the notation that no caller here needs.

        `alignment_bytes` is the memory's alignment of pages; `bank_count` matters to interleaved tensors only.
        Source: `TensorLayout::compute_consumed_memory_bytes_per_bank` of tt-metal, whose published cases check it.
        """
        page = self.page_shape(shape)
        shard = self.physical_shard_2d
        if not self.memory.is_sharded:
            pages = -(-self.page_count(shape) // bank_count)
        elif shard is not None:
            pages = -(-shard[0] // page[0]) * -(-shard[1] // page[1])
        else:
            pages = self.distribution(shape).most_pages_per_core
        return pages * aligned_page_bytes(self.page.page_bytes(page, self.dtype), alignment_bytes)


def _matrix(rows: int, columns: int) -> Pair:
    """Return the rows and columns; `LayoutError` if a tensor cannot have so many."""
    check_volume((rows, columns), "physical shape")
    return rows, columns
