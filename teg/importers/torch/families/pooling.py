"""Pooling by windows, with the positions of maxima where asked for, and its gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from teg.dtypes import is_float
from teg.importers.program import Value
from teg.importers.torch.families.convolution import spread
from teg.importers.torch.families.indexing import take
from teg.importers.torch.operator import TorchOperator, aten
from teg.importers.torch.tracer import Tracer
from teg.importers.translate.resampling import multiplied
from teg.operators.monoids import identity
from teg.operators.windows import read_extent

Ints = Sequence[int]


class Windows:
    """The windows of one pooling call: `out` of them per spatial dimension."""

    def __init__(self, t: Tracer, kernel: Any, stride: Any, padding: Any, dilation: Any, out: Ints) -> None:
        rank = len(out)
        self.kernel = spread(kernel, rank)
        self.stride = spread(stride, rank) if stride not in (None, (), []) else self.kernel
        self.padding, self.dilation, self.out = spread(padding, rank), spread(dilation, rank), list(out)

    def high(self, size: Ints) -> list[int]:
        """How far the last windows reach beyond the tensor."""
        return [
            max((o - 1) * s + (k - 1) * d + 1 - p - n, 0)
            for o, s, k, d, p, n in zip(
                self.out, self.stride, self.kernel, self.dilation, self.padding, size, strict=True
            )
        ]


def _pool(t: Tracer, x: Value, w: Windows, kind: str, **given: Any) -> Value:
    rank = len(w.out)
    spatial = x.shape[2:]
    each = zip(spatial, w.kernel, w.stride, w.dilation, w.padding, w.out, strict=True)
    x = t.slice(x, [*(range(s) for s in x.shape[:2]), *(range(read_extent(*v)) for v in each)])
    read, written = (("n", "c", *(f"{c}{k}" for k in range(rank))) for c in "xy")
    attributes: dict[str, Any] = {
        "kind": kind,
        "kernel": tuple(w.kernel),
        "strides": tuple(w.stride),
        "pads": (*w.padding, *w.high(x.shape[2:])),
        "dilations": tuple(w.dilation),
    }
    if kind == "average":
        attributes |= given if given.get("count_include_pad") else {"size": x.shape[2:]}
    sizes = {f"y{k}": n for k, n in enumerate(w.out)}
    return t.compute("pool", [x], [read], written, x.dtype, attributes, frozenset((*read, *written)), sizes)


def _batched(t: Tracer, x: Value, rank: int) -> Value:
    """A picture alone is a batch of one."""
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
        """The maxima, and where each lies in its plane, counted row by row (the first of equal ones)."""
        w = Windows(t, kernel_size, stride, padding, dilation, t.shape[-rank:])
        batch = _batched(t, x, rank)
        values = _pool(t, batch, w, "max")
        if len(t.call.outputs) < 2 or t.call.outputs[1] is None:
            return (_like(t, values, t.shape),)
        return _like(t, values, t.shape), _like(t, _positions(t, batch, values, w), t.shape)

    return pool


def _positions(t: Tracer, x: Value, values: Value, w: Windows) -> Value:
    """Tap by tap: the first whose element is the maximum says where that lies."""
    size, rank = x.shape[2:], len(w.out)
    lowest = identity("max", x.dtype)
    padded = t.pad(x, [0, 0, *w.padding], [0, 0, *w.high(size)], fill=lowest)
    taps = list(np.ndindex(*w.kernel))
    parts = [_tap(t, padded, tap, w) for tap in taps]
    result: Any = ("const", 0)
    for k, tap in reversed(list(enumerate(taps))):
        hit: Any = ("eq", ("input", k + 1), ("input", 0))
        if is_float(x.dtype):  # a window that holds NaN has it as its maximum
            hit = ("or", hit, ("is_nan", ("input", k + 1)))
        result = ("where", hit, _place(tap, w, size, rank), result)
    return t.elements(("cast", "int64", result), [values, *parts], "int64")


def _tap(t: Tracer, padded: Value, tap: Ints, w: Windows) -> Value:
    ranges = [
        range(k * d, k * d + s * (o - 1) + 1, s)
        for k, d, s, o in zip(tap, w.dilation, w.stride, w.out, strict=True)
    ]
    return t.slice(padded, [*(range(s) for s in padded.shape[:2]), *ranges])


def _place(tap: Ints, w: Windows, size: Ints, rank: int) -> Any:
    """The position in the plane that a tap reads, from the coordinates of the window."""
    total: Any = None
    for k in range(rank):
        start = tap[k] * w.dilation[k] - w.padding[k]
        line = ("add", ("mul", ("index", f"d{2 + k}"), ("const", w.stride[k])), ("const", start))
        term = ("mul", line, ("const", math.prod(size[k + 1 :])))
        total = term if total is None else ("add", total, term)
    return total


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
        """Each gradient is added to where its maximum came from."""
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


def _average(t: Tracer, x: Value, w: Windows, included: bool, divisor: int | None) -> Value:
    """Padding counts where asked for, but not what a last window reaches beyond it."""
    size = x.shape[2:]
    beyond = [h > p for h, p in zip(w.high(size), w.padding, strict=True)]
    if divisor is None and not (included and any(beyond)):
        return _pool(t, x, w, "average", count_include_pad=included)
    total = _pool(t, x, w, "average", count_include_pad=True)
    shares = _shares(t, w, size, included, divisor, x.dtype)
    return t.cells(lambda a, s: a * s, total, shares, dtype=x.dtype)


def _shares(t: Tracer, w: Windows, size: Ints, included: bool, divisor: int | None, dtype: str) -> Value:
    """Per window: taps in all by taps that count."""
    taps = math.prod(w.kernel)
    if divisor is not None:
        return t.full((), taps / divisor, dtype)
    counts = np.ones(())
    for o, s, k, d, p, n in zip(w.out, w.stride, w.kernel, w.dilation, w.padding, size, strict=True):
        places = np.arange(o)[:, None] * s + np.arange(k) * d - p
        inside = (places >= -p) & (places < n + p) if included else (places >= 0) & (places < n)
        counts = np.multiply.outer(counts, inside.sum(axis=1))
    return t.cast(t.literal((taps / counts).astype(np.float64)), dtype)


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
        """The mean of each window."""
        w = Windows(t, kernel_size, stride, padding, 1, t.shape[-rank:])
        found = _average(t, _batched(t, x, rank), w, count_include_pad, divisor_override)
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
        """Each gradient, by the elements of its window, summed over the windows that hold a place."""
        w = Windows(t, kernel_size, stride, padding, 1, grad_output.shape[-rank:])
        grad, batch = _batched(t, grad_output, rank), _batched(t, x, rank)
        size = batch.shape[2:]
        shares = _shares(t, w, size, count_include_pad, divisor_override, x.dtype)
        shared = t.cells(lambda g, s: g * s, grad, shares, dtype=x.dtype)
        for k, s in enumerate(w.stride):
            shared = t.dilate(shared, 2 + k, s)
        low = [k - 1 - p for k, p in zip(w.kernel, w.padding, strict=True)]
        high = [n - a - (m - k + 1) for n, a, m, k in zip(size, low, shared.shape[2:], w.kernel, strict=True)]
        padded = t.pad(shared, [0, 0, *low], [0, 0, *high])
        windows = Windows(t, w.kernel, 1, 0, 1, size)
        return _like(t, _pool(t, padded, windows, "average", count_include_pad=True), t.shape)

    return backward


def _means(size: int, out: int) -> np.ndarray:
    """The matrix `(out, size)` of adaptive means: row i takes from floor(i size / out) to ceil((i+1) size / out)."""
    matrix = np.zeros((out, size))
    for i in range(out):
        first, last = i * size // out, -(-(i + 1) * size // out)
        matrix[i, first:last] = 1 / (last - first)
    return matrix


def _adaptive_average(t: Tracer, x: Value, output_size: Ints) -> Value:
    """Means of equal parts by windows; of unequal ones by a matrix per dimension."""
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
    """Maxima of unequal parts: each is laid out as long as the longest, its last element repeated."""
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
    """Maxima of equal parts by windows, with their positions; of unequal ones the maxima only."""
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
