"""Collapse intervals: the dimensions of a tensor that are joined into one dimension of its grid.

An interval `(begin, end)` holds the dimensions from `begin` up to but not including `end`; negative ones count from
the last dimension, so the default `(0, -1)` joins all but the last. Source: tt-mlir, docs/src/specs/tensor-layout.md,
and `collapsedLinearAffineMap` of lib/Dialect/TTCore/IR/TTCoreOpsTypes.cpp.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.tt_metal.affine import AffineMap
from tapestry.hardware.layouts.tt_metal.expression import ConstantExpr, Dim, Expression, add, multiply

Interval = tuple[int, int]
Intervals = tuple[Interval, ...]

ALL_BUT_LAST: Intervals = ((0, -1),)


def collapse_groups(
    rank: int, grid_rank: int, intervals: Sequence[Interval] = ALL_BUT_LAST
) -> list[list[int]]:
    """Return the dimensions joined into each dimension of the grid; none where the map's result is the constant 0."""
    used = collapsed_map((2,) * rank, grid_rank, tuple((b, e) for b, e in intervals)).used_dims
    return [list(dims) for dims in used]


@lru_cache(maxsize=4096)
def collapsed_map(shape: tuple[int, ...], grid_rank: int, intervals: Intervals = ALL_BUT_LAST) -> AffineMap:
    """Build the affine map that joins the intervals of a shape's dimensions, row-major in each, onto a grid.

    Where joining leaves as many dimensions as the grid has, those are the results. Else tt-mlir's rule holds: the
    results are the last `grid_rank` dimensions with the joined ones put in place of their first, dimensions may occur
    twice (`(d0, d1, d2) -> (d0 * 96 + d1, d1, d2)`), and results missing for a tensor of lower rank are leading zeros.

    Raises `LayoutError` for intervals outside the rank or overlapping, and if a dimension would be in no result.
    """
    rank = len(shape)
    joined = normalized(rank, intervals)
    groups = _groups(rank, joined)
    if len(groups) == grid_rank:
        return AffineMap(rank, 0, tuple(_row_major(shape, group) for group in groups))
    results: list[Expression] = [Dim(d) for d in range(rank - min(rank, grid_rank), rank)]
    for begin, end in joined:
        if begin >= len(results):
            break
        results[begin] = _row_major(shape, range(begin, end))
    results[: joined[0][0] if joined else 0] = map(Dim, range(joined[0][0] if joined else 0))
    found = AffineMap(
        rank, 0, (*[ConstantExpr(0)] * (grid_rank - len(results)), *results[: max(grid_rank, 0)])
    )
    if found.unused_dims:
        raise LayoutError(
            f"Dim does not participate in AffineMap RHS: collapsing {list(intervals)} of rank {rank} leaves "
            f"{len(groups)} dimensions for a grid of rank {grid_rank}, d{found.unused_dims[0]} is in no result; "
            f"use a grid of rank {len(groups)} or join more dimensions"
        )
    return found


def normalized(rank: int, intervals: Sequence[Interval]) -> list[Interval]:
    """Convert `intervals` to counting from the first dimension and sort them, leaving out empty ones."""
    found = []
    for begin, end in intervals:
        first, last = (begin + rank if begin < 0 else begin), (end + rank if end < 0 else end)
        if first >= last:
            continue
        if first < 0 or last > rank:
            raise LayoutError(f"collapse interval ({begin}, {end}) is outside the dimensions of rank {rank}")
        found.append((first, last))
    found.sort()
    for (_, end), (begin, _) in pairwise(found):
        if begin < end:
            raise LayoutError(f"collapse intervals {list(intervals)} overlap at dimension {begin}")
    return found


def _groups(rank: int, joined: list[Interval]) -> list[Sequence[int]]:
    groups: list[Sequence[int]] = []
    covered = 0
    for begin, end in joined:
        groups += [range(d, d + 1) for d in range(covered, begin)]
        groups.append(range(begin, end))
        covered = end
    return groups + [range(d, d + 1) for d in range(covered, rank)]


def _row_major(shape: Sequence[int], group: Sequence[int]) -> Expression:
    terms: list[Expression] = []
    stride = 1
    for d in reversed(group):
        terms.append(multiply(Dim(d), ConstantExpr(stride)))
        stride *= max(shape[d], 1)
    return add(*reversed(terms))
