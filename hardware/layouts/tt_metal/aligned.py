"""The newer attribute `#ttcore.metal_layout<logical_shape = ..., dim_alignments = ..., collapsed_intervals = ...>`.

Source: tt-mlir, `MetalLayoutAttr::verify`, `normalizeAndFlattenIntervals`, `applyCollapsedIntervalsAndAlignments`,
`computeTileAlignments` and `getHostStrideAndVolume` of lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp.
"""

from collections.abc import Sequence

from hardware.layouts.layout import LayoutError


def verify_aligned(
    logical_shape: Sequence[int], dim_alignments: Sequence[int], intervals_shape: Sequence[int],
    intervals: Sequence[int],
) -> None:  # fmt: skip
    """Refuse fields that do not fit each other, in tt-mlir's words.

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
