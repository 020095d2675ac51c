"""Discrete coordinate spaces: points, half-open boxes, affine maps and index projections."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

ZPoint = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ZRange:
    """A half-open box `[start, end)` of any rank; rank 0 has size 1 and one empty point.

    Raises:
        ValueError: ranks differ, or an end lies before its start.
    """

    start: ZPoint
    end: ZPoint

    def __post_init__(self) -> None:
        if len(self.start) != len(self.end):
            raise ValueError(f"a range needs as many starts as ends, not {self.start} and {self.end}")
        if any(e < s for s, e in zip(self.start, self.end, strict=True)):
            raise ValueError(f"a range may not end before it starts: {self}")

    @staticmethod
    def of_shape(shape: Sequence[int]) -> ZRange:
        """The box `[0, shape)`."""
        return ZRange((0,) * len(shape), tuple(shape))

    @property
    def rank(self) -> int:
        return len(self.start)

    @property
    def shape(self) -> ZPoint:
        return tuple(e - s for s, e in zip(self.start, self.end, strict=True))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def is_empty(self) -> bool:
        return any(s == e for s, e in zip(self.start, self.end, strict=True))

    def contains(self, other: ZRange) -> bool:
        """Whether every point of `other` lies inside; an empty box lies in every box of its rank."""
        if other.is_empty:
            return True
        return all(
            s <= os and oe <= e
            for s, e, os, oe in zip(self.start, self.end, other.start, other.end, strict=True)
        )

    def contains_point(self, point: ZPoint) -> bool:
        return all(s <= p < e for s, e, p in zip(self.start, self.end, point, strict=True))

    def intersection(self, other: ZRange) -> ZRange:
        """The common box; empty (at the larger start) when the boxes are apart."""
        start = tuple(map(max, self.start, other.start))
        end = tuple(max(s, e) for s, e in zip(start, map(min, self.end, other.end), strict=True))
        return ZRange(start, end)

    def translate(self, offset: ZPoint) -> ZRange:
        return ZRange(
            tuple(s + o for s, o in zip(self.start, offset, strict=True)),
            tuple(e + o for e, o in zip(self.end, offset, strict=True)),
        )

    def bounding(self, other: ZRange) -> ZRange:
        return ZRange(tuple(map(min, self.start, other.start)), tuple(map(max, self.end, other.end)))

    def points(self) -> Iterator[ZPoint]:
        """All points, row-major."""
        return product(*(range(s, e) for s, e in zip(self.start, self.end, strict=True)))

    def __str__(self) -> str:
        return "zr[" + ", ".join(f"{s}:{e}" for s, e in zip(self.start, self.end, strict=True)) + "]"


@dataclass(frozen=True, slots=True)
class ZAffineMap:
    """`x -> matrix x + offset`; one matrix row per output dimension."""

    matrix: tuple[tuple[int, ...], ...]
    offset: ZPoint

    def __post_init__(self) -> None:
        if len(self.matrix) != len(self.offset):
            raise ValueError(
                f"an affine map needs one offset per row: {len(self.matrix)} rows, {self.offset}"
            )
        if len({len(row) for row in self.matrix}) > 1:
            raise ValueError("the rows of an affine map must have equal lengths")

    def apply(self, point: ZPoint) -> ZPoint:
        return tuple(
            sum(c * x for c, x in zip(row, point, strict=True)) + o
            for row, o in zip(self.matrix, self.offset, strict=True)
        )


@dataclass(frozen=True, slots=True)
class IndexProjection:
    """A box per index point: affine start plus a fixed `shape`.

    A range projects per coefficient, so rows of mixed signs bound exactly (two corners would not do).
    """

    start: ZAffineMap
    shape: ZPoint

    def __post_init__(self) -> None:
        if len(self.shape) != len(self.start.offset) or any(n < 0 for n in self.shape):
            rows = len(self.start.offset)
            raise ValueError(f"a projection of {rows} rows needs {rows} extents from 0 up, not {self.shape}")

    def project(self, index: ZRange) -> ZRange:
        """The bounding box of the boxes of all points of `index`; an empty index gives an empty box."""
        lows, highs = [], []
        for row, offset, extent in zip(self.start.matrix, self.start.offset, self.shape, strict=True):
            low = high = offset
            for c, s, e in zip(row, index.start, index.end, strict=True):
                a, b = c * s, c * max(s, e - 1)
                low, high = low + min(a, b), high + max(a, b)
            lows.append(low)
            highs.append(low if index.is_empty or extent == 0 else high + extent)
        return ZRange(tuple(lows), tuple(highs))
