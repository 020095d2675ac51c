"""Index maps of tiled storage over whole arrays of coordinates: the vectorized form of `tiling`.

A column holds one coordinate of n elements, (n,) int64; None stands for a column of zeros, which dimensions of size 1
and tiles of size 1 give, so that they cost no time.
"""

from collections.abc import Sequence

import numpy as np

from tapestry.hardware.layouts.layout import Indices, Mask
from tapestry.hardware.layouts.xla.tiling import TileStep

Column = Indices | None


def positions(columns: Sequence[Column], bounds: Sequence[int], count: int) -> Indices:
    """Compute the linear positions (count,) of columns in bounds ordered from major to minor."""
    found = _joined(columns, bounds)
    return np.zeros(count, dtype=np.int64) if found is None else found


def columns_of(offsets: Indices, bounds: Sequence[int]) -> list[Column]:
    """Compute the columns of linear positions, the inverse of `positions`; offsets are within the bounds."""
    return _parted(offsets, bounds)


def tiled(columns: Sequence[Column], step: TileStep) -> list[Column]:
    """Convert columns over a step's `bounds` (missing major ones left out) to columns over its `after`."""
    whole = [*(None,) * (len(step.bounds) - len(columns)), *columns]
    folded = [_joined([whole[k] for k in g], [step.bounds[k] for k in g]) for g in step.groups]
    return cut(folded, step)


def cut(columns: Sequence[Column], step: TileStep) -> list[Column]:
    """Convert columns over a step's `folded` or `padded` bounds to columns over its `after`."""
    inner = zip(columns[step.untiled :], step.tile, step.counts, strict=True)
    pairs = [_split(column, size, count) for column, size, count in inner]
    return [*columns[: step.untiled], *(q for q, _ in pairs), *(r for _, r in pairs)]


def untiled(columns: Sequence[Column], step: TileStep, real: Mask) -> list[Column]:
    """Invert `tiled` over all of the step's `bounds`; clear `real` (n,) where there is padding."""
    lead, n = step.untiled, len(step.tile)
    outer, quotients, rests = columns[:lead], columns[lead : lead + n], columns[lead + n :]
    folded = list(outer)
    for quotient, rest, size, bound in zip(quotients, rests, step.tile, step.folded[lead:], strict=True):
        column = _joined((quotient, rest), (-(-bound // size), size))
        if column is not None and bound % size:
            real &= column < bound
        folded.append(column)
    found: list[Column] = [None] * len(step.bounds)
    for column, group in zip(folded, step.groups, strict=True):
        parts = _parted(column, [step.bounds[k] for k in group]) if len(group) > 1 else [column]
        for k, part in zip(group, parts, strict=True):
            found[k] = part
    return found


def _split(column: Column, size: int, count: int) -> tuple[Column, Column]:
    if column is None or size == 1:
        return column, None
    if count == 1:
        return None, column
    if size & (size - 1) == 0:
        return column >> (size.bit_length() - 1), column & (size - 1)
    quotient = column // size
    return quotient, column - quotient * size


def _joined(columns: Sequence[Column], bounds: Sequence[int]) -> Column:
    position: Column = None
    for column, bound in zip(columns, bounds, strict=True):
        if position is not None and bound != 1:
            position = position * bound
        if column is not None:
            position = column if position is None else position + column
    return position


def _parted(column: Column, bounds: Sequence[int]) -> list[Column]:
    found = list[Column]()
    for bound in reversed(bounds[1:]):
        column, rest = _split(column, bound, 2)
        found.append(rest)
    return [column if len(bounds) else None, *reversed(found)][: len(bounds)]
