"""Distribution of shards over cores, round robin or grid on grid, and the core of every page of the tensor."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from tapestry.hardware.layouts.layout import Indices, LayoutError
from tapestry.hardware.layouts.ttnn.cores import Core, CoreRange, CoreRangeSet, merged
from tapestry.hardware.layouts.ttnn.tile import Pair
from tapestry.hardware.layouts.ttnn.words import ShardDistributionStrategy, ShardOrientation

PADDING = -1
"""The page index of a slot that holds no page of the tensor."""
MOST_MAPPED_PAGES = 2**27


@dataclass(frozen=True)
class CoreGroups:
    """The cores that hold data: those with more shards (group 1) and, if the numbers differ, those with one fewer."""

    cores_with_data: CoreRangeSet
    group_1: CoreRangeSet
    group_2: CoreRangeSet
    shards_in_group_1: int
    shards_in_group_2: int


@dataclass(frozen=True)
class Distribution:
    """A port of tt-metal's BufferDistributionSpec: shapes in pages with ranks squeezed, and the cores in shard order.

    Shards are distributed to cores one by one, or with `in_runs` in equal runs of consecutive ones.
    """

    tensor: tuple[int, ...]
    shard: tuple[int, ...]
    cores: tuple[Core, ...]
    in_runs: bool = False

    def __post_init__(self) -> None:
        if self.in_runs and self.cores and self.shard_count % len(self.cores):
            raise LayoutError(
                f"{self.shard_count} shards cannot be dealt in equal runs to {len(self.cores)} cores; "
                "CONTIGUOUS_1D needs a multiple"
            )

    @classmethod
    def of_elements(
        cls,
        tensor: Sequence[int],
        shard: Sequence[int],
        page: Pair,
        grid: CoreRangeSet,
        orientation: ShardOrientation,
        strategy: ShardDistributionStrategy,
    ) -> "Distribution":
        """Build the distribution of shapes in elements, the last two dimensions split into pages (rows, columns)."""
        return cls.of_pages(in_pages(tensor, page), in_pages(shard, page), grid, orientation, strategy)

    @classmethod
    def of_pages(
        cls,
        tensor: Sequence[int],
        shard: Sequence[int],
        grid: CoreRangeSet,
        orientation: ShardOrientation = ShardOrientation.ROW_MAJOR,
        strategy: ShardDistributionStrategy = ShardDistributionStrategy.ROUND_ROBIN_1D,
    ) -> "Distribution":
        """Build the distribution of shapes in pages.

        Raises:
            LayoutError: a rank or a volume is zero, no core for a page, or shards that do not fit the grid.
        """
        if not tensor:
            raise LayoutError("Tensor rank must be at least 1!")
        if not shard:
            raise LayoutError("Shard rank must be at least 1!")
        if not prod(shard):
            raise LayoutError("Shard shape must have non zero volume!")
        if strategy is ShardDistributionStrategy.GRID_2D:
            cores = _grid_cores(tensor, shard, grid, orientation)
        else:
            cores = grid.cores(row_wise=orientation is ShardOrientation.ROW_MAJOR)
        if prod(tensor) and not cores:
            raise LayoutError("Can't distribute non zero volume tensor over an empty set of cores")
        in_runs = strategy is ShardDistributionStrategy.CONTIGUOUS_1D
        return cls(*squeeze_ranks(tensor, shard), cores, in_runs)

    @property
    def shard_grid(self) -> tuple[int, ...]:
        """The number of shards along each dimension."""
        return tuple(-(-t // s) for t, s in zip(self.tensor, self.shard, strict=True))

    @property
    def shard_count(self) -> int:
        """The total number of shards."""
        return prod(self.shard_grid)

    @property
    def page_count(self) -> int:
        """The number of pages of the tensor."""
        return prod(self.tensor)

    @property
    def most_shards_per_core(self) -> int:
        """The number of shards on the fullest core."""
        return -(-self.shard_count // len(self.cores)) if self.cores else 0

    @property
    def most_pages_per_core(self) -> int:
        """The number of slots for pages on every core."""
        return self.most_shards_per_core * prod(self.shard)

    @property
    def device_page_count(self) -> int:
        """The number of slots for pages on all cores."""
        return self.most_pages_per_core * len(self.cores)

    @property
    def shards_per_core(self) -> tuple[int, ...]:
        """The number of shards on each core."""
        if not self.cores:
            return ()
        least, more = divmod(self.shard_count, len(self.cores))
        return tuple(least + (at < more) for at in range(len(self.cores)))

    def core_of_shard(self, shard: int) -> Core:
        """Return the core that holds a shard."""
        return self.cores[shard // self.most_shards_per_core if self.in_runs else shard % len(self.cores)]

    def core_groups(self) -> CoreGroups:
        """Group the cores that hold data by the number of shards they hold."""
        least, more = divmod(self.shard_count, len(self.cores)) if self.cores else (0, 0)
        held = merged(self.cores[: self.shard_count])
        if not more:
            return CoreGroups(held, held, CoreRangeSet(()), least, 0)
        rest = self.cores[more:] if least else ()
        return CoreGroups(held, merged(self.cores[:more]), merged(rest), least + 1, least)

    def page_mapping(self) -> Indices:
        """Compute the tensor's page in every slot (cores, slots), `PADDING` where there is none."""
        if self.device_page_count > MOST_MAPPED_PAGES:
            raise LayoutError(
                f"{self.device_page_count} slots are too many to list; expected {MOST_MAPPED_PAGES}"
            )
        mapping = np.full((len(self.cores), self.most_pages_per_core), PADDING, dtype=np.int64)
        if not self.page_count:
            return mapping
        pages = np.arange(self.page_count, dtype=np.int64)
        shard = np.zeros_like(pages)
        slot = np.zeros_like(pages)
        coords = np.unravel_index(pages, self.tensor)
        for coord, count, size in zip(coords, self.shard_grid, self.shard, strict=True):
            shard = shard * count + coord // size
            slot = slot * size + coord % size
        core, turn = (
            divmod(shard, self.most_shards_per_core)
            if self.in_runs
            else reversed(divmod(shard, len(self.cores)))
        )
        mapping[core, turn * prod(self.shard) + slot] = pages
        return mapping


def in_pages(shape: Sequence[int], page: Pair) -> tuple[int, ...]:
    """Convert the last two dimensions of a shape from elements to pages, rounding up."""
    sizes = (1,) * (len(shape) - 2) + page[2 - min(len(shape), 2) :]
    return tuple(-(-d // p) for d, p in zip(shape, sizes, strict=True))


def squeeze_ranks(tensor: Sequence[int], shard: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Express a distribution with fewer dimensions (tt-metal: `squeeze_shape_ranks`).

    A dimension joins the next one if all of those are taken whole, or if its shard is 1 and the next divides evenly.
    Tensor dimensions before the shard's first one, and leading ones of both, are folded in.
    """
    if len(tensor) < len(shard):
        raise LayoutError(
            f"Tensor shape rank ({len(tensor)}) can't be less than shard shape rank ({len(shard)})!"
        )
    offset = len(tensor) - len(shard)
    sizes: list[list[int]] = []
    whole = divides = False
    for at in range(len(shard) - 1, -1, -1):
        size, cut = tensor[offset + at], shard[at]
        if sizes and (whole or (cut == 1 and divides)):
            sizes[0] = [sizes[0][0] * size, sizes[0][1] * cut]
            whole &= size == cut
        else:
            sizes.insert(0, [size, cut])
            whole = size == cut
        divides = size % cut == 0
        if prod(tensor[offset + at :]) == prod(tensor) and prod(shard[at:]) == prod(shard):
            break
    sizes[0][0] *= prod(tensor[:offset])
    return tuple(size for size, _ in sizes), tuple(cut for _, cut in sizes)


def _grid_cores(
    tensor: Sequence[int], shard: Sequence[int], grid: CoreRangeSet, orientation: ShardOrientation
) -> tuple[Core, ...]:
    """Return the cores of the part of a rectangle that a grid of shards covers.

    Leading dimensions count as rows, as `squeeze_ranks` folds them, so that every shard has a core of its own.
    """
    if len(shard) > 2:
        raise LayoutError("2D grid distribution is only supported for 2D sharding!")
    if len(grid.ranges) != 1:
        raise LayoutError("2D grid distribution is only supported for one contiguous core grid!")
    row_wise = orientation is ShardOrientation.ROW_MAJOR
    high = max(-(-prod(tensor[:-1]) // (1, *shard)[-2]), 1)
    wide = max(-(-tensor[-1] // shard[-1]), 1)
    rows, columns = (high, wide) if row_wise else (wide, high)
    (cores,) = grid.ranges
    if columns > cores.columns:
        raise LayoutError("Number of shards along width must not exceed core grid width!")
    if rows > cores.rows:
        raise LayoutError("Number of shards along height must not exceed core grid height!")
    end = Core(cores.start.x + columns - 1, cores.start.y + rows - 1)
    return CoreRange(cores.start, end).cores(row_wise=row_wise)
