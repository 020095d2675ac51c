"""`as_strided`, diagonals and sliding windows: elements addressed by strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.slice_scatter import replaced
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.translation import plain_labels


class Walk(NamedTuple):
    """The traversal of one input dimension: by which output dimension (-1: none), from where, and with which step."""

    by: int
    start: int
    step: int


def row_major(shape: Sequence[int]) -> list[int]:
    """Compute row-major strides: per dimension the distance in storage of its neighbors."""
    strides, total = [], 1
    for size in reversed(shape):
        strides.append(total)
        total *= size
    return strides[::-1]


def is_row_major(shape: Sequence[int], strides: Sequence[int] | None) -> bool:
    """Return whether strides are the row-major ones, where they matter; those that are not recorded are."""
    if strides is None:
        return True
    return all(a == b for a, b, n in zip(strides, row_major(shape), shape, strict=True) if n != 1)


def _walks(
    shape: Sequence[int], size: Sequence[int], stride: Sequence[int], offset: int
) -> list[Walk] | None:
    """Find the walks that give element `offset + sum stride * i` of a row-major tensor; None if there are none."""
    own = row_major(shape)
    walks = []
    for extent, pace in zip(shape, own, strict=True):
        start, offset = divmod(offset, pace) if pace else (0, offset)
        walks.append(Walk(-1, start, 1))
        if start >= extent:
            return None
    for k, (count, pace) in enumerate(zip(size, stride, strict=True)):
        if count == 1 or pace == 0:
            continue
        fits = [d for d, p in enumerate(own) if shape[d] > 1 and pace % p == 0]
        if not fits:
            return None
        d = max(fits, key=lambda d: own[d])
        step, walk = pace // own[d], walks[d]
        if walk.by >= 0 or walk.start + step * (count - 1) >= shape[d]:
            return None
        walks[d] = Walk(k, walk.start, step)
    return walks


def _as_strided(
    t: Tracer, x: Value, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Value:
    """Translate `as_strided` to a slice and a permutation where strides walk whole dimensions, else refuse it."""
    if not t.is_row_major(x):
        raise t.refuse("is supported only on tensors that are stored row-major")
    walks = _walks(x.shape, size, stride, storage_offset or 0)
    if walks is None:
        raise t.refuse(
            f"with sizes {list(size)} and strides {list(stride)} overlaps or splits dimensions of {list(x.shape)}"
        )
    ranges = [_range(w, size) for w in walks]
    part = t.slice(x, ranges)
    source = tuple(f"d{w.by}" if w.by >= 0 else "" for w in walks)
    target = tuple(d if d in source else "" for d in plain_labels(len(size)))
    return t.relabel(part, source, target, size)


def _as_strided_scatter(
    t: Tracer,
    x: Value,
    src: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:
    """Write `src` where `as_strided` would read."""
    walks = _walks(x.shape, size, stride, storage_offset or 0) if t.is_row_major(x) else None
    if walks is None or any(n != 1 and s == 0 for n, s in zip(size, stride, strict=True)):
        raise t.refuse(f"with sizes {list(size)} and strides {list(stride)} does not write whole slices")
    labels = plain_labels(len(size))
    source = tuple(d if any(w.by == k for w in walks) else "" for k, d in enumerate(labels))
    target = tuple(f"d{w.by}" if w.by >= 0 else "" for w in walks)
    ranges = [_range(w, size) for w in walks]
    part = t.relabel(t.cast(src, x.dtype), source, target, [len(r) for r in ranges])
    for axis in range(len(ranges))[::-1]:
        if len(ranges[axis]) != x.shape[axis]:
            rest = [r if k < axis else range(s) for k, (r, s) in enumerate(zip(ranges, x.shape, strict=True))]
            part = replaced(t, t.slice(x, rest), part, axis, ranges[axis])
    return part


def _range(walk: Walk, size: Sequence[int]) -> range:
    count = size[walk.by] if walk.by >= 0 else 1
    return range(walk.start, walk.start + walk.step * (count - 1) + 1, walk.step)


def _diagonal(t: Tracer, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Take the diagonal of the two dimensions: a line in steps of the number of columns plus 1."""
    rank = len(x.shape)
    a, b = t.axis(dim1, rank), t.axis(dim2, rank)
    rest = [k for k in range(rank) if k not in (a, b)]
    value = t.permute(x, [*rest, a, b])
    *lead, rows, columns = value.shape
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    first = max(offset, 0) + max(-offset, 0) * columns
    line = t.reshape(value, (*lead, rows * columns))
    span = range(first, first + (count - 1) * (columns + 1) + 1, columns + 1) if count else range(0)
    return t.part(line, len(lead), span)


def _unfold(t: Tracer, x: Value, dimension: int, size: int, step: int) -> Value:
    """Concatenate the taps of a window, each a strided slice, as the last dimension."""
    axis = t.axis(dimension, len(x.shape))
    count = (x.shape[axis] - size) // step + 1
    taps = [t.part(x, axis, range(k, k + step * (count - 1) + 1, step)) for k in range(size)]
    last = len(x.shape)
    return t.concat([t.unsqueeze(tap, last) for tap in taps], last)


# Whose results share the storage of their operand at other strides or another offset.
VIEWS = frozenset(
    (
        *aten(
            "permute", "transpose.int", "t", "expand", "slice.Tensor", "select.int", "split.Tensor", "chunk"
        ),
        *aten("split_with_sizes", "unbind.int", "narrow", "diagonal", "as_strided", "unfold", "mT"),
    )
)

STRIDED: tuple[TorchOperator, ...] = (
    TorchOperator(aten("as_strided", "as_strided_copy"), _as_strided),
    TorchOperator(aten("as_strided_scatter"), _as_strided_scatter),
    TorchOperator(aten("diagonal", "diagonal_copy"), _diagonal),
    TorchOperator(aten("unfold", "unfold_copy"), _unfold),
)
