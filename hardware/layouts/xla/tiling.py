"""Tiling as defined by XLA: pad, reshape, transpose, once per tile, each over the dimensions the last one left.

Bounds and indices here are *physical*: most major first. A tile of lower rank covers the most minor dimensions, for
one of higher rank the missing dimensions have size 1 (as in ShapeUtil::ArraySize). Stars are folded most-major
first, so `(*,*,2,*,3)` joins a chain of three dimensions into one.

Source: openxla/xla:docs/tiled_layout.md, sections "Linear index formulas", "Tiling as pad-reshape-transpose",
"Repeated tiling" and "Combining dimensions".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.xla.tile import COMBINE, Tile, check_tile, tile_text

MOST_DIMENSIONS = 64
LARGEST = 2**63 - 1


@dataclass(frozen=True)
class TileStep:
    """A tile applied to bounds.

    `bounds` (k,) are the input dimensions, missing ones prepended as 1; `groups` are the runs of them that `*`
    joins, `folded` their products, and `tile` the sizes without stars, over the last dimensions of `folded`.
    """

    bounds: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]
    tile: tuple[int, ...]

    @cached_property
    def folded(self) -> tuple[int, ...]:
        """The bounds after joining dimensions."""
        return tuple(prod(self.bounds[k] for k in group) for group in self.groups)

    @property
    def untiled(self) -> int:
        """The number of major dimensions that the tile leaves unchanged."""
        return len(self.groups) - len(self.tile)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """The numbers of tiles along each tiled dimension, the ragged last one included."""
        return tuple(-(-d // t) for d, t in zip(self.folded[self.untiled :], self.tile, strict=True))

    @property
    def padded(self) -> tuple[int, ...]:
        """The bounds rounded up to whole tiles (step 1)."""
        whole = (n * t for n, t in zip(self.counts, self.tile, strict=True))
        return (*self.folded[: self.untiled], *whole)

    @property
    def split(self) -> tuple[int, ...]:
        """The bounds with every tiled dimension as (tiles, size of a tile) (step 2)."""
        pairs = (x for pair in zip(self.counts, self.tile, strict=True) for x in pair)
        return (*self.folded[: self.untiled], *pairs)

    @property
    def permutation(self) -> tuple[int, ...]:
        """The order of `split`'s dimensions that moves those inside a tile to the minor end (step 3)."""
        lead, n = self.untiled, len(self.tile)
        return (*range(lead), *range(lead, lead + 2 * n, 2), *range(lead + 1, lead + 2 * n, 2))

    @cached_property
    def after(self) -> tuple[int, ...]:
        """The resulting bounds: untiled dimensions, counts of tiles, the tile."""
        return (*self.folded[: self.untiled], *self.counts, *self.tile)

    def fold(self, index: Sequence[int]) -> tuple[int, ...]:
        """Convert an index over `bounds` (missing major dimensions are 0) to one over `folded`."""
        whole = (*(0,) * (len(self.bounds) - len(index)), *index)
        return tuple(linear_index([whole[k] for k in g], [self.bounds[k] for k in g]) for g in self.groups)

    def apply(self, index: Sequence[int]) -> tuple[int, ...]:
        """Convert an index over `bounds` to one over `after`."""
        folded = self.fold(index)
        outer, inner = folded[: self.untiled], folded[self.untiled :]
        pairs = [divmod(e, t) for e, t in zip(inner, self.tile, strict=True)]
        return (*outer, *(q for q, _ in pairs), *(r for _, r in pairs))


def linear_index(index: Sequence[int], bounds: Sequence[int]) -> int:
    """Compute the position of an index in bounds ordered from major to minor."""
    position = 0
    for e, d in zip(index, bounds, strict=True):
        position = position * d + e
    return position


def tile_step(bounds: Sequence[int], tile: Tile) -> TileStep:
    """Apply one tile to physical bounds; `LayoutError` for a tile that cannot be applied to anything."""
    check_tile(tile)
    whole = (*(1,) * (len(tile) - len(bounds)), *bounds)
    lead = len(whole) - len(tile)
    groups: list[tuple[int, ...]] = [(k,) for k in range(lead)]
    run = list[int]()
    for k, size in enumerate(tile, lead):
        run.append(k)
        if size != COMBINE:
            groups.append(tuple(run))
            run = []
    return TileStep(whole, tuple(groups), tuple(size for size in tile if size != COMBINE))


def tile_steps(bounds: Sequence[int], tiles: Sequence[Tile]) -> tuple[TileStep, ...]:
    """Apply all tiles to physical bounds, first to last.

    Raises `LayoutError` for an impossible tile, more than 64 resulting dimensions or storage beyond int64.
    """
    steps = list[TileStep]()
    current = tuple(bounds)
    for tile in tiles:
        steps.append(tile_step(current, tile))
        current = steps[-1].after
        if len(current) > MOST_DIMENSIONS:
            raise LayoutError(
                f"tiles up to {tile_text(tile)[:80]} make {len(current)} dimensions; expected at most {MOST_DIMENSIONS}"
            )
        if prod(current) > LARGEST:
            raise LayoutError(f"Shape tiled by {tile_text(tile)[:80]} size may overflow int64_t.")
    return tuple(steps)


def linear_index_with_tiles(index: Sequence[int], bounds: Sequence[int], tiles: Sequence[Tile]) -> int:
    """Compute the position of a physical index under all tiles (docs: linear_index_with_tile, repeated)."""
    current, position = tuple(bounds), tuple(index)
    for step in tile_steps(bounds, tiles):
        current, position = step.after, step.apply(position)
    return linear_index(position, current)
