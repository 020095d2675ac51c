"""Reads by index: known progressions are slices, all others gather rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer

# A known line of indices in more runs than this is gathered.
MOST_RUNS = 16


def _embedding(t: Tracer, weight: Value, indices: Value, *_: Any, **__: Any) -> Value:
    return t.gather(weight, indices, 0)


def _index_select(t: Tracer, x: Value, dim: int, index: Value) -> Value:
    axis = t.axis(dim, len(x.shape))
    return take(t, x, axis, t.reshape(index, (math.prod(index.shape),)))


def take(t: Tracer, x: Value, axis: int, index: Value) -> Value:
    """Take elements along one axis as `numpy.take` does; known indices become slices where they run evenly."""
    known = t.known(index)
    if known is not None and known.full.ndim == 1 and known.full.size:
        flat = np.where(known.full < 0, known.full + x.shape[axis], known.full)
        if flat.min() < 0 or flat.max() >= x.shape[axis]:
            raise t.refuse(f"has indices outside dimension {axis} of size {x.shape[axis]}")
        found = _evenly(t, x, axis, flat)
        if found is not None:
            return found
    return t.gather(x, index, axis)


def _evenly(t: Tracer, x: Value, axis: int, flat: np.ndarray) -> Value | None:
    """Take slices one after the other, or each element several times; None if the indices are of neither kind."""
    runs = _runs(flat)
    if len(runs) <= MOST_RUNS:
        return t.concat([_run(t, x, axis, r, n) for r, n in runs], axis)
    times = int(np.argmax(flat != flat[0]))
    if times > 1 and flat.size % times == 0 and (flat.reshape(-1, times) == flat[::times, None]).all():
        part = _evenly(t, x, axis, flat[::times])
        if part is not None:
            wide = [*part.shape[: axis + 1], times, *part.shape[axis + 1 :]]
            opened = t.expand(t.unsqueeze(part, axis + 1), wide)
            return t.reshape(opened, [flat.size if k == axis else s for k, s in enumerate(x.shape)])
    return None


def _runs(flat: np.ndarray) -> list[tuple[range, int]]:
    """Split indices into successive progressions, each with how often its elements are repeated.

    A progression that is repeated more than once has one element.
    """
    runs: list[tuple[range, int]] = []
    at = 0
    while at < flat.size and len(runs) <= MOST_RUNS:
        if at + 1 == flat.size:
            runs.append((range(int(flat[at]), int(flat[at]) + 1), 1))
            break
        step = int(flat[at + 1] - flat[at])
        breaks = np.nonzero(np.diff(flat[at:]) != step)[0]
        length = int(breaks[0]) + 1 if breaks.size else flat.size - at
        if step == 0:
            runs.append((range(int(flat[at]), int(flat[at]) + 1), length))
        elif length == 2 and breaks.size:  # two elements are no run: the second may begin one
            runs.append((range(int(flat[at]), int(flat[at]) + 1), 1))
            length = 1
        else:
            runs.append((range(int(flat[at]), int(flat[at]) + step * length, step), 1))
        at += length
    return runs


def _run(t: Tracer, x: Value, axis: int, span: range, times: int) -> Value:
    part = t.part(x, axis, span)
    return part if times == 1 else t.expand(part, [times if k == axis else s for k, s in enumerate(x.shape)])


def _gather(t: Tracer, x: Value, dim: int, index: Value) -> Value:
    """Gather along `dim`, with all other dimensions aligned; the index may be smaller than the table."""
    if not x.shape:
        return t.expand(x, index.shape)
    axis = t.axis(dim, len(x.shape))
    table = t.slice(x, [range(s) if k == axis else range(index.shape[k]) for k, s in enumerate(x.shape)])
    return t.gather(table, index, axis, [k for k in range(len(x.shape)) if k != axis])


def _take_along_dim(t: Tracer, x: Value, indices: Value, dim: int | None = None) -> Value:
    if dim is None:
        flat = t.reshape(x, (x.size,))
        return t.gather(flat, t.reshape(indices, (indices.size,)), 0)
    return _gather(t, x, dim, indices)


def _take(t: Tracer, x: Value, index: Value) -> Value:
    return t.gather(t.reshape(x, (x.size,)), index, 0)


def index(t: Tracer, x: Value, indices: Sequence[Value | None]) -> Value:
    """Index as `x[indices]`: index tensors broadcast together and take the place of their first dimension."""
    where = [k for k, v in enumerate(indices) if v is not None]
    given = [opened_mask(t, v) for v in indices if v is not None]
    if not where:
        return x
    together = where == list(range(where[0], where[0] + len(where)))
    if len(where) == 1:
        return take(t, x, where[0], given[0])
    grid = _grid(t, x, where, given) if together else None
    if grid is not None:
        return grid
    rest = [k for k in range(len(x.shape)) if k not in where]
    at = where[0] if together else 0
    table = t.permute(x, [*rest[:at], *where, *rest[at:]])
    sizes = [x.shape[k] for k in where]
    flat = t.reshape(table, (*table.shape[:at], math.prod(sizes), *table.shape[at + len(sizes) :]))
    return t.gather(flat, flat_index(t, given, sizes), at)


def opened_mask(t: Tracer, value: Value) -> Value:
    """Cast an index to integers.

    Raises:
        ImportFailure: it is a mask, so that the result's size depends on data.
    """
    if value.dtype in ("bool", "uint8"):
        raise t.refuse("selects by a mask: the result's size depends on data, which is unsupported")
    return t.cast(value, "int64")


def flat_index(t: Tracer, given: Sequence[Value], sizes: Sequence[int]) -> Value:
    """Compute positions in the flattened dimensions: each index wrapped if negative, times its stride."""
    total: Any = None
    for k, size in enumerate(sizes):
        read = ("input", k)
        wrapped = ("where", ("lt", read, ("const", 0)), ("add", read, ("const", size)), read)
        term = ("mul", wrapped, ("const", math.prod(sizes[k + 1 :])))
        total = term if total is None else ("add", total, term)
    return t.elements(total, given, "int64")


def _grid(t: Tracer, x: Value, where: Sequence[int], given: Sequence[Value]) -> Value | None:
    """Select one dimension after the other, if known indices each run along a dimension of their own; else None."""
    shape = np.broadcast_shapes(*(v.shape for v in given))
    if len(shape) != len(given):
        return None
    lines = []
    for k, value in enumerate(given):
        known = t.known(value)
        full = (1,) * (len(shape) - len(value.shape)) + value.shape
        if known is None or any(n != 1 for d, n in enumerate(full) if d != k):
            return None
        lines.append(t.literal(known.full.reshape(-1)))
    for axis, line in zip(where, lines, strict=True):
        x = take(t, x, axis, line)
    return x


INDEXING: tuple[TorchOperator, ...] = (
    TorchOperator(aten("embedding"), _embedding),
    TorchOperator(aten("index_select"), _index_select),
    TorchOperator(aten("gather"), _gather),
    TorchOperator(aten("take_along_dim"), _take_along_dim),
    TorchOperator(aten("take"), _take),
    TorchOperator(aten("index.Tensor", "_unsafe_index.Tensor"), index),
)
