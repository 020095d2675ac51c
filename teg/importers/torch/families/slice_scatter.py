"""Writes of slices into a tensor: concatenations with the new values, or padding where the rest is constant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.movement import span
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer


def replaced(t: Tracer, x: Value, src: Value, axis: int, span: range) -> Value:
    """Replace the elements of `x` at the coordinates `span` along `axis` by `src`."""
    src, size = t.cast(src, x.dtype), x.shape[axis]
    known = t.known(x)
    fill = known.array.reshape(()).item() if known is not None and known.array.size == 1 else None
    if span.step == 1:
        low, high = span.start, size - span.stop
        if fill is not None:
            widths = [[n if k == axis else 0 for k in range(len(x.shape))] for n in (low, high)]
            return t.pad(src, widths[0], widths[1], fill=fill)
        before = [t.part(x, axis, range(low))] if low else []
        after = [t.part(x, axis, range(span.stop, size))] if high else []
        return t.concat([*before, src, *after], axis)
    spread = t.dilate(src, axis, span.step)
    rest = size - span.start - spread.shape[axis]
    widths = [[n if k == axis else 0 for k in range(len(x.shape))] for n in (span.start, rest)]
    placed = t.pad(spread, widths[0], widths[1])
    if fill == 0:
        return placed
    place = ("sub", ("index", f"d{axis}"), ("const", span.start))
    inside = ("and", ("ge", place, ("const", 0)), ("lt", place, ("const", len(span) * span.step)))
    hit = ("and", inside, ("eq", ("mod", place, ("const", span.step)), ("const", 0)))
    return t.elements(("where", hit, ("input", 0), ("input", 1)), [placed, x], x.dtype)


def _slice_scatter(
    t: Tracer, x: Value, src: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Value:
    axis = t.axis(dim, len(x.shape))
    where = span(x.shape[axis], start, end, step)
    return t.cast(src, x.dtype) if len(where) == x.shape[axis] else replaced(t, x, src, axis, where)


def _select_scatter(t: Tracer, x: Value, src: Value, dim: int, index: int) -> Value:
    axis = t.axis(dim, len(x.shape))
    at = index % x.shape[axis]
    return replaced(t, x, t.unsqueeze(src, axis), axis, range(at, at + 1))


def _slice_backward(
    t: Tracer, grad_output: Value, input_sizes: Sequence[int], dim: int, start: int, end: int, step: int
) -> Value:
    axis = t.axis(dim, len(input_sizes))
    where = span(input_sizes[axis], start, end, step)
    zeros = t.full(input_sizes, 0, grad_output.dtype)
    return grad_output if len(where) == input_sizes[axis] else replaced(t, zeros, grad_output, axis, where)


def _select_backward(
    t: Tracer, grad_output: Value, input_sizes: Sequence[int], dim: int, index: int
) -> Value:
    return _select_scatter(t, t.full(input_sizes, 0, grad_output.dtype), grad_output, dim, index)


def _diagonal_scatter(
    t: Tracer, x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    """Write the diagonal along the rows and select it where row and column meet."""
    rank = len(x.shape)
    a, b = t.axis(dim1, rank), t.axis(dim2, rank)
    order = [*(k for k in range(rank) if k not in (a, b)), a, b]
    table = t.permute(x, order)
    first = max(-offset, 0)
    low, high = [0] * (rank - 1), [0] * (rank - 1)
    low[-1], high[-1] = first, table.shape[-2] - first - src.shape[-1]
    lines = t.unsqueeze(t.pad(t.cast(src, x.dtype), low, high), rank - 1)
    meet = ("eq", ("index", f"d{rank - 1}"), ("add", ("index", f"d{rank - 2}"), ("const", offset)))
    found = t.elements(("where", meet, ("input", 0), ("input", 1)), [lines, table], x.dtype)
    return t.permute(found, [order.index(k) for k in range(rank)])


def _diagonal_backward(
    t: Tracer, grad_output: Value, input_sizes: Sequence[int], offset: int, dim1: int, dim2: int
) -> Value:
    return _diagonal_scatter(t, t.full(input_sizes, 0, grad_output.dtype), grad_output, offset, dim1, dim2)


PLACING: tuple[TorchOperator, ...] = (
    TorchOperator(aten("slice_scatter"), _slice_scatter),
    TorchOperator(aten("select_scatter"), _select_scatter),
    TorchOperator(aten("slice_backward"), _slice_backward),
    TorchOperator(aten("select_backward"), _select_backward),
    TorchOperator(aten("diagonal_scatter"), _diagonal_scatter),
    TorchOperator(aten("diagonal_backward"), _diagonal_backward),
)
