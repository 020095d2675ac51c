"""Discrete coordinate spaces: half-open boxes, affine maps and index projections over integer points."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise, product

from tapestry.teg.zpoint import ZPoint, check_point, leq, permuted, resolved_axis

RANGE_TEXT = re.compile(r"zr\[\s*(?:-?\d+\s*:\s*-?\d+\s*(?:,\s*-?\d+\s*:\s*-?\d+\s*)*)?\]")
NUMBER = re.compile(r"-?\d+")


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
        """Build the box `[0, shape)`."""
        return ZRange((0,) * len(shape), tuple(shape))

    @staticmethod
    def build(
        start: Sequence[int] | None = None,
        end: Sequence[int] | None = None,
        shape: Sequence[int] | None = None,
    ) -> ZRange:
        """Build the box from `start` (zeros if not given) to `end`, or of this `shape`.

        Raises:
            ValueError: both or none of `end` and `shape` are given, or ranks differ.
        """
        if (end is None) == (shape is None):
            raise ValueError("a range is built from its end or from its shape: give one of the two")
        sizes = end if shape is None else shape
        assert sizes is not None
        low = (0,) * len(sizes) if start is None else tuple(start)
        if len(low) != len(sizes):
            raise ValueError(f"a range needs as many starts as sizes, not {low} and {tuple(sizes)}")
        high = sizes if shape is None else [s + n for s, n in zip(low, sizes, strict=True)]
        return ZRange(low, tuple(high))

    @staticmethod
    def parse(text: str) -> ZRange:
        """Parse the box that prints as `text`: `zr[2:4, -1:5]`.

        Raises:
            ValueError: it is not the text of a range.
        """
        if not RANGE_TEXT.fullmatch(text.strip()):
            raise ValueError(f"{text!r} is no range; write zr[start:end, start:end, ...]")
        numbers = [int(n) for n in NUMBER.findall(text)]
        return ZRange(tuple(numbers[::2]), tuple(numbers[1::2]))

    @staticmethod
    def around(boxes: Iterable[ZRange]) -> ZRange:
        """Return the smallest box that holds all `boxes`.

        Raises:
            ValueError: there are none.
        """
        found = list(boxes)
        if not found:
            raise ValueError("no box holds nothing: give at least one range")
        whole = found[0]
        for box in found[1:]:
            whole = whole.bounding(box)
        return whole

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
        """Return whether `other` lies inside, corner by corner; an empty box has a position too and may lie inside."""
        return leq(self.start, other.start) and leq(other.end, self.end)

    def contains_point(self, point: ZPoint) -> bool:
        """Return whether `point` lies inside, below the end in every dimension.

        Raises:
            TypeError: it is no sequence of integers.
            ValueError: it has another rank than this range.
        """
        check_point(point, self.rank, f"the range {self}")
        return all(s <= p < e for s, e, p in zip(self.start, self.end, point, strict=True))

    @property
    def inclusive_end(self) -> ZPoint:
        """The last point.

        Raises:
            ValueError: the range is empty.
        """
        if self.is_empty:
            raise ValueError(f"the empty range {self} has no last point")
        return tuple(e - 1 for e in self.end)

    def corners(self) -> list[ZPoint]:
        """Return the points at the corners, row-major, each once; none for an empty box."""
        if self.is_empty:
            return []
        ends = zip(self.start, self.inclusive_end, strict=True)
        return list(product(*(sorted({low, high}) for low, high in ends)))

    def meeting(self, other: ZRange) -> ZRange | None:
        """Return the common box: empty where the boxes touch, None where they are apart."""
        apart = any(e < os or oe < s for s, e, os, oe in zip(*self._ends, *other._ends, strict=True))
        return None if apart else self.intersection(other)

    @property
    def _ends(self) -> tuple[ZPoint, ZPoint]:
        return self.start, self.end

    def intersection(self, other: ZRange) -> ZRange:
        """Return the common box; empty (at the larger start) when the boxes are apart."""
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

    def permute(self, order: Sequence[int]) -> ZRange:
        """Return the box with its dimensions in another order, as `numpy.transpose`."""
        return ZRange(permuted(self.start, order), permuted(self.end, order))

    def split(self, axis: int, sizes: int | Sequence[int]) -> list[ZRange]:
        """Split along `axis` into adjacent boxes: chunks of one size (the last may be smaller), or these sizes.

        Raises:
            ValueError: a size below 1, or sizes whose sum is not that of the dimension.
        """
        axis = resolved_axis(axis, self.rank)
        size = self.shape[axis]
        if isinstance(sizes, int):
            if sizes < 1:
                raise ValueError(f"chunks must have a size of at least 1, not {sizes}")
            count = max(1, -(-size // sizes))
            sizes = [min(sizes, size - k * sizes) for k in range(count)]
        elif any(n < 1 for n in sizes) or sum(sizes) != size:
            raise ValueError(f"sizes of at least 1 that sum up to {size} are needed, not {list(sizes)}")
        cuts = accumulate(sizes, initial=self.start[axis])
        return [
            ZRange(
                (*self.start[:axis], a, *self.start[axis + 1 :]), (*self.end[:axis], b, *self.end[axis + 1 :])
            )
            for a, b in pairwise(cuts)
        ]

    def cross(self, other: ZRange) -> ZRange:
        """Return the cartesian product: these dimensions, then those of `other`."""
        return ZRange(self.start + other.start, self.end + other.end)

    def points(self) -> Iterator[ZPoint]:
        """Yield all points, row-major."""
        return product(*(range(s, e) for s, e in zip(self.start, self.end, strict=True)))

    def __str__(self) -> str:
        return "zr[" + ", ".join(f"{s}:{e}" for s, e in zip(self.start, self.end, strict=True)) + "]"


@dataclass(frozen=True, slots=True)
class ZAffineMap:
    """An affine map `x -> matrix x + offset`; one matrix row per output dimension."""

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

    @staticmethod
    def diagonal(factors: Sequence[int]) -> ZAffineMap:
        """Build the map `x[k] -> factors[k] x[k]`."""
        n = len(factors)
        rows = tuple(tuple(f if j == k else 0 for j in range(n)) for k, f in enumerate(factors))
        return ZAffineMap(rows, (0,) * n)

    def translate(self, by: ZPoint) -> ZAffineMap:
        """Return the map with its results moved by `by`."""
        return ZAffineMap(self.matrix, tuple(o + b for o, b in zip(self.offset, by, strict=True)))

    def permute_inputs(self, order: Sequence[int]) -> ZAffineMap:
        """Return the map of points whose coordinates come in another order."""
        return ZAffineMap(tuple(permuted(row, order) for row in self.matrix), self.offset)

    def permute_outputs(self, order: Sequence[int]) -> ZAffineMap:
        """Return the map with its results in another order."""
        return ZAffineMap(permuted(self.matrix, order), permuted(self.offset, order))

    def broadcast_apply(self, point: ZPoint) -> ZPoint:
        """Run `apply` on the last coordinates; further ones in front pass through."""
        lead = max(0, len(point) - (len(self.matrix[0]) if self.matrix else 0))
        return point[:lead] + self.apply(point[lead:])


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
        """Compute the bounding box of all points' boxes; an empty index gives an empty box at its start."""
        lows, highs = [], []
        for row, offset, extent in zip(self.start.matrix, self.start.offset, self.shape, strict=True):
            low = high = offset
            for c, s, e in zip(row, index.start, index.end, strict=True):
                a, b = c * s, c * (s if index.is_empty else e - 1)
                low, high = low + min(a, b), high + max(a, b)
            lows.append(low)
            highs.append(low if index.is_empty or extent == 0 else high + extent)
        return ZRange(tuple(lows), tuple(highs))

    @staticmethod
    def diagonal(factors: Sequence[int], shape: ZPoint) -> IndexProjection:
        """Build the projection `x[k] -> [factors[k] x[k], ... + shape[k])`."""
        return IndexProjection(ZAffineMap.diagonal(factors), shape)

    def translate(self, by: ZPoint) -> IndexProjection:
        """Return the projection with its boxes moved by `by`."""
        return IndexProjection(self.start.translate(by), self.shape)

    def project_point(self, point: ZPoint) -> ZRange:
        """Compute the box of one point; further coordinates in front pass through, as Loom's projection maps define."""
        lead = max(0, len(point) - (len(self.start.matrix[0]) if self.start.matrix else 0))
        return ZRange.build(self.start.broadcast_apply(point), shape=(1,) * lead + self.shape)

    @property
    def marginal_strides(self) -> tuple[ZPoint, ...]:
        """The distance by which the box moves in each tensor dimension, per index dimension growing by one."""
        return tuple(zip(*self.start.matrix, strict=True))

    @property
    def marginal_overlap(self) -> tuple[ZPoint, ...]:
        """The extent, per index dimension, of each tensor dimension that two neighboring steps share."""
        return tuple(
            tuple(max(n - abs(s), 0) for n, s in zip(self.shape, strides, strict=True))
            for strides in self.marginal_strides
        )

    @property
    def marginal_waste(self) -> tuple[ZPoint, ...]:
        """The extent, per index dimension, of each tensor dimension that lies unread between neighboring steps.

        This and the marginal overlap are the marginal sharing of data by which the whitepaper compares splits.
        """
        return tuple(
            tuple(max(abs(s) - n, 0) for n, s in zip(self.shape, strides, strict=True))
            for strides in self.marginal_strides
        )
