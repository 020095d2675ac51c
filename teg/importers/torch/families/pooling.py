"""Pooling by windows, with the positions of maxima where requested, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.convolution import spread
from tapestry.teg.importers.torch.families.indexing import take
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.pooling import (
    average,
    places_of_maxima,
    pooled,
    shares_of,
)
from tapestry.teg.importers.translate.resampling import multiplied
from tapestry.teg.operators.windows import WindowGeometry

Ints = Sequence[int]


def _windows(kernel: Any, stride: Any, padding: Any, dilation: Any, out: Ints) -> WindowGeometry:
    """Convert torch's window parameters: numbers for all spatial dimensions, padding the same on both sides."""
    rank = len(out)
    taps, padded = spread(kernel, rank), spread(padding, rank)
    strides = spread(stride, rank) if stride not in (None, (), []) else taps
    return WindowGeometry(*map(tuple, (taps, strides, spread(dilation, rank), padded, padded, out)))


def _batched(t: Tracer, x: Value, rank: int) -> Value:
    """Add a batch dimension of one to a single image."""
    return t.unsqueeze(x, 0) if len(x.shape) == rank + 1 else x


def _like(t: Tracer, value: Value, shape: Ints) -> Value:
    return value if value.shape == tuple(shape) else t.reshape(value, shape)


def _max_pool(rank: int) -> Any:
    def pool(
        t: Tracer,
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
    ) -> tuple[Value, ...]:
        """Compute the maxima, and the position of each in its plane, counted row by row (the first of equal ones)."""
        w = _windows(kernel_size, stride, padding, dilation, t.shape[-rank:])
        batch = _batched(t, x, rank)
        values = pooled(t, batch, w, "max")
        if len(t.call.outputs) < 2 or t.call.outputs[1] is None:
            return (_like(t, values, t.shape),)
        return _like(t, values, t.shape), _like(t, places_of_maxima(t, batch, values, w), t.shape)

    return pool


def _max_pool_backward(rank: int) -> Any:
    def backward(
        t: Tracer,
        grad_output: Value,
        x: Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        ceil_mode: bool,
        indices: Value,
    ) -> Value:
        """Add each gradient to the element that its maximum came from."""
        return _unpooled(t, grad_output, indices, x.shape, rank)

    return backward


def _unpooled(t: Tracer, values: Value, indices: Value, shape: Ints, rank: int) -> Value:
    lead = tuple(shape[: len(shape) - rank])
    plane = math.prod(shape[len(shape) - rank :])
    count = math.prod(values.shape[len(lead) :])
    flat, places = (t.reshape(v, (*lead, count)) for v in (values, indices))
    return t.reshape(t.scatter(places, flat, len(lead), plane, aligned=range(len(lead))), shape)


def _max_unpool(t: Tracer, x: Value, indices: Value, output_size: Ints) -> Value:
    return _unpooled(t, x, indices, t.shape, 2)


def _average_pool(rank: int) -> Any:
    def pool(
        t: Tracer,
        x: Value,
        kernel_size: Any,
        stride: Any = (),
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        """Compute the mean of each window."""
        w = _windows(kernel_size, stride, padding, 1, t.shape[-rank:])
        found = average(t, _batched(t, x, rank), w, count_include_pad, divisor_override)
        return _like(t, found, t.shape)

    return pool


def _average_pool_backward(rank: int) -> Any:
    def backward(
        t: Tracer,
        grad_output: Value,
        x: Value,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        ceil_mode: bool,
        count_include_pad: bool,
        divisor_override: int | None,
    ) -> Value:
        """Divide each gradient by the elements of its window, and sum over the windows that hold a place."""
        w = _windows(kernel_size, stride, padding, 1, grad_output.shape[-rank:])
        grad, batch = _batched(t, grad_output, rank), _batched(t, x, rank)
        size = batch.shape[2:]
        shares = shares_of(t, w, size, count_include_pad, divisor_override, x.dtype)
        shared = t.cells(lambda g, s: g * s, grad, shares, dtype=x.dtype)
        for k, s in enumerate(w.strides):
            shared = t.dilate(shared, 2 + k, s)
        low = [k - 1 - p for k, p in zip(w.kernel, w.low, strict=True)]
        high = [n - a - (m - k + 1) for n, a, m, k in zip(size, low, shared.shape[2:], w.kernel, strict=True)]
        padded = t.pad(shared, [0, 0, *low], [0, 0, *high])
        windows = _windows(w.kernel, 1, 0, 1, size)
        return _like(t, pooled(t, padded, windows, "average", count_include_pad=True), t.shape)

    return backward


def _means(size: int, out: int) -> np.ndarray:
    """Build the matrix of adaptive means, `(out, size)`.

    Row i takes from floor(i size / out) to ceil((i+1) size / out).
    """
    matrix = np.zeros((out, size))
    for i in range(out):
        first, last = i * size // out, -(-(i + 1) * size // out)
        matrix[i, first:last] = 1 / (last - first)
    return matrix


def _adaptive_average(t: Tracer, x: Value, output_size: Ints) -> Value:
    """Compute adaptive means: one reduction where all output sizes are 1, else a matrix per dimension."""
    rank = len(output_size)
    lead = len(x.shape) - rank
    out = t.shape[-rank:]
    if all(n == 1 for n in out):
        return t.reduce(x, range(lead, len(x.shape)), keep=True, scale=1 / math.prod(x.shape[lead:]))
    for k, n in enumerate(out):
        if x.shape[lead + k] != n:
            x = multiplied(t, x, lead + k, _means(x.shape[lead + k], n))
    return x


def _adaptive_average_backward(t: Tracer, grad_output: Value, x: Value) -> Value:
    rank = 2 if t.call.target.startswith(("aten._adaptive_avg_pool2d",)) else 3
    lead = len(x.shape) - rank
    for k in range(lead, len(x.shape)):
        grad_output = multiplied(t, grad_output, k, _means(x.shape[k], grad_output.shape[k]).T)
    return grad_output


def _adaptive_max_unequal(t: Tracer, x: Value, out: Ints) -> Value:
    """Compute the maxima of unequal parts: each is laid out as long as the longest, its last element repeated."""
    lead = len(x.shape) - len(out)
    for k, n in enumerate(out):
        axis, size = lead + k, x.shape[lead + k]
        first = np.arange(n) * size // n
        last = -(-(np.arange(n) + 1) * size // n) - 1
        width = int((last - first).max()) + 1
        places = np.minimum(first[:, None] + np.arange(width), last[:, None])
        laid = take(t, x, axis, t.literal(places.reshape(-1)))
        opened = t.reshape(laid, (*x.shape[:axis], n, width, *x.shape[axis + 1 :]))
        x = t.reduce(opened, [axis + 1], "max")
    return x


def _adaptive_max(t: Tracer, x: Value, output_size: Ints) -> tuple[Value | None, ...]:
    """Compute the maxima of equal parts by windows, with their positions; of unequal ones the maxima and None."""
    rank = len(output_size)
    out = t.shape[-rank:]
    size = x.shape[-rank:]
    if any(s % n for s, n in zip(size, out, strict=True)):
        return _adaptive_max_unequal(t, x, out), None
    kernel = [s // n for s, n in zip(size, out, strict=True)]
    return tuple(_max_pool(rank)(t, x, kernel))


_RANKS = (1, 2, 3)

POOLING: tuple[TorchOperator, ...] = (
    *(TorchOperator(aten(f"max_pool{n}d_with_indices", f"max_pool{n}d"), _max_pool(n)) for n in _RANKS),
    *(TorchOperator(aten(f"max_pool{n}d_with_indices_backward"), _max_pool_backward(n)) for n in (2, 3)),
    *(TorchOperator(aten(f"avg_pool{n}d"), _average_pool(n)) for n in _RANKS),
    *(TorchOperator(aten(f"avg_pool{n}d_backward"), _average_pool_backward(n)) for n in (2, 3)),
    TorchOperator(aten("max_unpool2d"), _max_unpool),
    TorchOperator(
        (
            *aten("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d"),
            *aten("adaptive_avg_pool2d", "adaptive_avg_pool3d"),
        ),
        _adaptive_average,
    ),
    TorchOperator(
        aten("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward"), _adaptive_average_backward
    ),
    TorchOperator(aten("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d"), _adaptive_max),
)
