"""The newer attribute `#ttcore.metal_layout<logical_shape = ..., dim_alignments = ..., collapsed_intervals = ...>`.

Source: tt-mlir, `MetalLayoutAttr::verify`, `normalizeAndFlattenIntervals`, `applyCollapsedIntervalsAndAlignments`,
`computeTileAlignments` and `getHostStrideAndVolume` of lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.attribute import MEMORY_SPACES, OOB_VALUES, check_choice, check_rank
from tapestry.hardware.layouts.tt_metal.collapse import Interval, Intervals
from tapestry.hardware.layouts.tt_metal.element import BLOCK_TILE
from tapestry.hardware.layouts.tt_metal.expression import ZERO, ConstantExpr, Dim, Expression, add, multiply
from tapestry.hardware.layouts.tt_metal.shards import Extents

MEMORY_LAYOUTS = ("sharded", "interleaved")


@dataclass(frozen=True)
class AlignedAttribute:
    """A logical shape, whose dimensions are joined by intervals and aligned as they are joined.

    The innermost dimension of an interval is rounded up to its alignment, multiplied by the next outer extent, rounded
    up to that one's alignment, and so on. Dimensions in no interval stand alone. `oob` is the padding value that the
    first form of the attribute had, `index_map` a view that some forms carry.
    """

    logical_shape: Extents
    dim_alignments: Extents
    intervals: Intervals
    memory_space: str = "system"
    memory_layout: str | None = "sharded"
    oob: str | None = None
    index_map: AffineMap | None = None
    dialect: str = field(default="ttcore", compare=False)

    def __post_init__(self) -> None:
        """Raise `LayoutError`, in tt-mlir's words, for fields that do not fit each other."""
        check_rank(self.logical_shape)
        verify_aligned(
            self.logical_shape,
            self.dim_alignments,
            (len(self.intervals), 2),
            [i for pair in self.intervals for i in pair],
        )
        check_choice("a memory space", self.memory_space, MEMORY_SPACES)
        if self.oob is not None:
            check_choice("an out-of-bounds value", self.oob, OOB_VALUES)

    @classmethod
    def of(
        cls, shape: Sequence[int], memory_space: str = "l1", memory_layout: str = "sharded",
        intervals: Intervals | None = None,
    ) -> "AlignedAttribute":  # fmt: skip
        """Build the attribute with tt-mlir's alignments: 32 for the last dimension of the last two intervals, else 1.

        Without intervals all dimensions but the last are joined.
        """
        rank = len(shape)
        if intervals is None:
            intervals = ((0, rank - 1), (rank - 1, rank)) if rank else ()
        alignments = [1] * rank
        ends = [end for start, end in normalized_intervals(rank, intervals) if end > start]
        for end, extent in zip(reversed(ends), reversed(BLOCK_TILE), strict=False):
            alignments[end - 1] = extent
        return cls(tuple(shape), tuple(alignments), intervals, memory_space, memory_layout)

    @property
    def normalized_intervals(self) -> list[Interval]:
        """The intervals counted from the first dimension and sorted, with one for every dimension in none."""
        return normalized_intervals(len(self.logical_shape), self.intervals)

    def physical_shape(self, tile: tuple[int, int] | None = None) -> Extents:
        """Compute aligned extents, in scalars or in tiles; tensors of rank 0 and 1 get a two-dimensional tile plane."""
        found = [self._joined(start, end)[1] for start, end in self.normalized_intervals if end > start]
        found = (
            [*BLOCK_TILE] if not found else [BLOCK_TILE[0], *found] if len(self.logical_shape) == 1 else found
        )
        if tile is not None:
            if len(found) < 2:
                raise LayoutError(f"expected at least 2D shape to tilize, not {found}")
            for place, extent in ((-2, tile[0]), (-1, tile[1])):
                if found[place] % extent:
                    raise LayoutError(
                        f"the aligned extents {found} are no multiple of the tile {tile[0]}x{tile[1]}: align dimension "
                        f"{len(found) + place} to {extent}"
                    )
                found[place] //= extent
        return tuple(found)

    def device_shape(self, grid: Sequence[int], tile: tuple[int, int] | None = None) -> Extents:
        """Compute the tensor's shape on a grid: the grid's extents, then those of a shard."""
        physical = self.physical_shape(tile)
        if len(grid) != len(physical):
            raise LayoutError(
                f"expected a grid of rank {len(physical)} for {list(physical)}, not {list(grid)}"
            )
        for size, cores in zip(physical, grid, strict=True):
            if cores < 1 or size % cores:
                raise LayoutError(
                    f"Collapsed dimension must be evenly divisible by grid dimension, got {size} % {cores} != 0."
                )
        return (*grid, *(size // cores for size, cores in zip(physical, grid, strict=True)))

    @property
    def linear(self) -> AffineMap:
        """The map from logical to physical indices."""
        results: list[Expression] = []
        for start, end in self.normalized_intervals:
            if end > start:
                strides, _ = self._joined(start, end)
                results.append(
                    add(*(multiply(Dim(start + i), ConstantExpr(s)) for i, s in enumerate(strides)))
                )
        rank = len(self.logical_shape)
        plane = [ZERO] * max(2 - len(results), 0) if rank < 2 else []
        return AffineMap(rank, 0, (*plane, *results))

    @property
    def host_strides(self) -> Extents:
        """The scalars from an element to the next in the aligned tensor on the host, for each logical dimension."""
        found: list[int] = []
        physical = 1
        for start, end in reversed(self.normalized_intervals):
            if end > start:
                strides, size = self._joined(start, end)
                found[:0] = [physical * stride for stride in strides]
                physical *= size
        return tuple(found)

    @property
    def host_volume(self) -> int:
        """The number of scalars of the aligned tensor on the host."""
        return prod(self.physical_shape()) if self.logical_shape else 1

    def _joined(self, start: int, end: int) -> tuple[list[int], int]:
        """Compute the strides of an interval's dimensions in its joined one, and its aligned extent."""
        strides: list[int] = []
        size = 1
        for dim in reversed(range(start, end)):
            strides.insert(0, size)
            alignment = self.dim_alignments[dim]
            size = -(-size * self.logical_shape[dim] // alignment) * alignment
        return strides, size


def normalized_intervals(rank: int, intervals: Sequence[Interval]) -> list[Interval]:
    """Normalize intervals: counted from the first dimension and sorted, with one for every dimension in none.

    tt-mlir adds such intervals behind the last one only and loses dimensions before and between: here none is lost.
    """
    found: list[Interval] = []
    covered = 0
    for start, end in sorted((s + rank if s < 0 else s, e + rank if e < 0 else e) for s, e in intervals):
        if start < covered < end:
            raise LayoutError(f"collapsed_intervals {list(intervals)} overlap at dimension {start}")
        found += [(d, d + 1) for d in range(covered, start)]
        found.append((start, end))
        covered = max(covered, end)
    return found + [(d, d + 1) for d in range(covered, rank)]


def verify_aligned(
    logical_shape: Sequence[int], dim_alignments: Sequence[int], intervals_shape: Sequence[int],
    intervals: Sequence[int],
) -> None:  # fmt: skip
    """Raise `LayoutError`, in tt-mlir's words, for fields that do not fit each other.

    `intervals` are the values of the array `collapsed_intervals`, row by row, `intervals_shape` its extents (n, 2).
    """
    rank = len(logical_shape)
    if len(dim_alignments) != rank:
        raise LayoutError(
            f"dim_alignments size ({len(dim_alignments)}) must match logical_shape rank ({rank})"
        )
    for place, alignment in enumerate(dim_alignments):
        if alignment <= 0:
            raise LayoutError(f"dim_alignments[{place}] must be positive, got {alignment}")
    if len(intervals_shape) != 2:
        raise LayoutError(f"collapsed_intervals must be a 2D array, got rank {len(intervals_shape)}")
    if intervals_shape[1] != 2:
        raise LayoutError(
            f"collapsed_intervals must have pairs (second dim size 2), got {intervals_shape[1]}"
        )
    for start, end in zip(intervals[::2], intervals[1::2], strict=True):
        first, last = (start + rank if start < 0 else start), (end + rank if end < 0 else end)
        if not 0 <= first < rank:
            raise _out_of_bounds("start", start, first, rank)
        if not 0 <= last <= rank:
            raise _out_of_bounds("end", end, last, rank)
        if first > last:
            raise LayoutError(f"collapsed_intervals start ({start}) must not exceed end ({end})")


def _out_of_bounds(what: str, index: int, normalized: int, rank: int) -> LayoutError:
    return LayoutError(
        f"collapsed_intervals {what} index {index} (normalized: {normalized}) is out of bounds for "
        f"logical_shape rank {rank}"
    )
