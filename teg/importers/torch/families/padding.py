"""Padding with constants, or with neighbors (reflected, repeated, from the other side): concatenations of slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer


def _pad(t: Tracer, x: Value, pad: Sequence[int], value: float = 0) -> Value:
    """Pad a tensor; widths come in pairs, the last dimension's first; negative ones crop."""
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    for k in range(len(pad) // 2):
        low[-1 - k], high[-1 - k] = pad[2 * k], pad[2 * k + 1]
    return t.pad(x, low, high, fill=value)


def _mirrored(size: int, low: int, high: int) -> list[range]:
    """Return the parts of a line with its neighbors reflected, without the border itself."""
    parts = [range(low, 0, -1), range(size), range(size - 2, size - 2 - high, -1)]
    return [p for p in parts if len(p)]


def _border(t: Tracer, x: Value, axis: int, at: int, count: int) -> list[Value]:
    if not count:
        return []
    shape = [count if k == axis else s for k, s in enumerate(x.shape)]
    return [t.expand(t.part(x, axis, range(at, at + 1)), shape)]


def _reflection_pad(t: Tracer, x: Value, padding: Sequence[int]) -> Value:
    for k in range(len(padding) // 2):
        axis = len(x.shape) - 1 - k
        parts = _mirrored(x.shape[axis], padding[2 * k], padding[2 * k + 1])
        x = t.concat([t.part(x, axis, p) for p in parts], axis)
    return x


def _replication_pad(t: Tracer, x: Value, padding: Sequence[int]) -> Value:
    for k in range(len(padding) // 2):
        axis = len(x.shape) - 1 - k
        before = _border(t, x, axis, 0, padding[2 * k])
        after = _border(t, x, axis, x.shape[axis] - 1, padding[2 * k + 1])
        x = t.concat([*before, x, *after], axis)
    return x


def _circular_pad(t: Tracer, x: Value, pad: Sequence[int]) -> Value:
    for k in range(len(pad) // 2):
        axis, (low, high) = len(x.shape) - 1 - k, pad[2 * k : 2 * k + 2]
        size = x.shape[axis]
        spans = [range(size - low, size), range(size), range(high)]
        x = t.concat([t.part(x, axis, s) for s in spans if len(s)], axis)
    return x


def _pad_by_mode(t: Tracer, x: Value, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Value:
    if mode == "constant":
        return _pad(t, x, pad, value or 0)
    return {"reflect": _reflection_pad, "replicate": _replication_pad, "circular": _circular_pad}[mode](
        t, x, pad
    )


def _sum_of(t: Tracer, shape: Sequence[int], axis: int, parts: list[tuple[Value, range]]) -> Value:
    """Sum parts placed along `axis` of a tensor of `shape`."""
    total: Value | None = None
    for part, where in parts:
        placed = part if len(where) == shape[axis] else _placed(t, part, shape, axis, where)
        total = placed if total is None else t.cells(lambda a, b: a + b, total, placed, dtype=part.dtype)
    assert total is not None
    return total


def _placed(t: Tracer, part: Value, shape: Sequence[int], axis: int, where: range) -> Value:
    low, high = [0] * len(shape), [0] * len(shape)
    low[axis], high[axis] = where.start, shape[axis] - where.stop
    return t.pad(part, low, high)


def _pad_backward(reflects: bool) -> Any:
    def backward(t: Tracer, grad_output: Value, x: Value, padding: Sequence[int]) -> Value:
        """Add the gradients of border elements to those of the elements that they were copied from."""
        for k in range(len(padding) // 2):
            axis, (low, high) = len(x.shape) - 1 - k, padding[2 * k : 2 * k + 2]
            size = x.shape[axis]
            shape = [size if d == axis else s for d, s in enumerate(grad_output.shape)]
            parts = [(t.part(grad_output, axis, range(low, low + size)), range(size))]
            for count, at, place in (
                (low, range(low), 0),
                (high, range(low + size, low + size + high), size - 1),
            ):
                if not count:
                    continue
                if reflects:
                    first = 1 if place == 0 else size - 1 - high
                    parts.append((t.part(grad_output, axis, at[::-1]), range(first, first + count)))
                else:
                    border = t.part(grad_output, axis, at)
                    parts.append((t.reduce(border, [axis], keep=True), range(place, place + 1)))
            grad_output = _sum_of(t, shape, axis, parts)
        return grad_output

    return backward


_PADS = ("reflection_pad1d", "reflection_pad2d", "reflection_pad3d")
_EDGES = ("replication_pad1d", "replication_pad2d", "replication_pad3d")

BORDERS: tuple[TorchOperator, ...] = (
    TorchOperator(aten(*(f"{name}_backward" for name in _PADS)), _pad_backward(reflects=True)),
    TorchOperator(aten(*(f"{name}_backward" for name in _EDGES)), _pad_backward(reflects=False)),
    TorchOperator(aten("constant_pad_nd"), _pad),
    TorchOperator(aten("pad"), _pad_by_mode),
    TorchOperator(aten(*_PADS), _reflection_pad),
    TorchOperator(aten(*_EDGES), _replication_pad),
)
