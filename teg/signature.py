"""Operator signatures: the boxes that an operator reads and writes for each step of its index space.

Every index dimension has a name and a kind: `parallel`, or the monoid by which partial results combine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tapestry.teg.brief import counted, listed, shown
from tapestry.teg.intern import InternedValue
from tapestry.teg.zspace import IndexProjection, ZAffineMap, ZRange

PARALLEL = "parallel"
MONOIDS = ("sum", "max", "min", "prod", "logsumexp", "any", "all")


class Row(NamedTuple):
    """One tensor dimension as read by a block: `[stride * i + offset, ... + extent)` for index `i` of `dim`.

    `dim` is the position of the index dimension, or -1 when the range is the same for every index point.
    """

    dim: int
    stride: int
    offset: int
    extent: int


@dataclass(frozen=True, eq=False, slots=True)
class IndexDim(InternedValue):
    """A named dimension of an index space; `kind` is `parallel` or a monoid's name."""

    name: str
    size: int
    kind: str = PARALLEL


@dataclass(frozen=True, eq=False, slots=True)
class Signature(InternedValue):
    """Index dimensions plus one projection per input and output.

    Raises:
        ValueError: an unknown kind, a repeated name, or a row of the wrong length.
    """

    dims: tuple[IndexDim, ...]
    inputs: tuple[IndexProjection, ...]
    outputs: tuple[IndexProjection, ...]

    def __post_init__(self) -> None:
        names = [d.name for d in self.dims]
        if len(set(names)) != len(names):
            raise ValueError(f"index dimensions must have different names, not {names}")
        for d in self.dims:
            if d.kind != PARALLEL and d.kind not in MONOIDS:
                raise ValueError(
                    f"index dimension {d.name!r} is of unknown kind {d.kind!r}; use {PARALLEL} or {MONOIDS}"
                )
        for p in (*self.inputs, *self.outputs):
            if any(len(row) != len(self.dims) for row in p.start.matrix):
                raise ValueError(
                    f"a projection row needs {len(self.dims)} coefficients, one per index dimension"
                )

    def __repr__(self) -> str:
        dims = [f"{d.name}={d.size}{'' if d.kind == PARALLEL else ' ' + d.kind}" for d in self.dims]
        sides = (counted(len(self.inputs), "input"), counted(len(self.outputs), "output"))
        return shown("Signature", (listed(dims, 6), *sides))

    @property
    def index_range(self) -> ZRange:
        return ZRange.of_shape([d.size for d in self.dims])

    def project(self, index: ZRange) -> tuple[tuple[ZRange, ...], tuple[ZRange, ...]]:
        """Project a part of the index space to the boxes of all inputs it reads and of all outputs it produces."""
        inputs, outputs = (tuple(p.project(index) for p in side) for side in (self.inputs, self.outputs))
        return inputs, outputs

    def position(self, name: str) -> int:
        for k, d in enumerate(self.dims):
            if d.name == name:
                return k
        raise KeyError(f"no index dimension {name!r} among {[d.name for d in self.dims]}")


def rows_of(projection: IndexProjection) -> tuple[Row | None, ...]:
    """Convert each tensor dimension to a `Row`; None where several index dimensions meet (not separable)."""
    rows: list[Row | None] = []
    for coefficients, offset, extent in zip(
        projection.start.matrix, projection.start.offset, projection.shape, strict=True
    ):
        used = [k for k, c in enumerate(coefficients) if c != 0]
        if not used:
            rows.append(Row(-1, 0, offset, extent))
        elif len(used) == 1:
            rows.append(Row(used[0], coefficients[used[0]], offset, extent))
        else:
            rows.append(None)
    return tuple(rows)


def reached(projection: IndexProjection, index: ZRange) -> ZRange:
    """Project a part of the index space to a box; only dimensions that an empty index dimension moves are empty.

    A sum over nothing still produces its whole result, and a cell without rows still has its columns.
    """
    empty = [k for k, n in enumerate(index.shape) if n == 0]
    if not empty:
        return projection.project(index)
    filled = ZRange(index.start, tuple(max(e, s + 1) for s, e in zip(index.start, index.end, strict=True)))
    box = projection.project(filled)
    ends = tuple(
        start if any(row[k] for k in empty) else end
        for row, start, end in zip(projection.start.matrix, box.start, box.end, strict=True)
    )
    return ZRange(box.start, ends)


def projection(rows: Sequence[Row], dim_count: int) -> IndexProjection:
    """Build the projection with these rows over an index space of `dim_count` dimensions."""
    matrix = tuple(tuple(r.stride if k == r.dim else 0 for k in range(dim_count)) for r in rows)
    return IndexProjection(ZAffineMap(matrix, tuple(r.offset for r in rows)), tuple(r.extent for r in rows))
