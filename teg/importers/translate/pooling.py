"""Pooling by windows: means, maxima and their positions, p-norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.dtypes import HALF, is_float
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value, check_written
from tapestry.teg.importers.translate.arithmetic import call
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed
from tapestry.teg.importers.translate.translation import OnnxTranslator, check_taps
from tapestry.teg.importers.translate.windows import geometry_of
from tapestry.teg.operators.monoids import identity
from tapestry.teg.operators.windows import WindowGeometry

Ints = Sequence[int]


def pooled(b: Builder, x: Value, w: WindowGeometry, kind: str, **given: Any) -> Value:
    """Emit one pool block over the elements that the windows read."""
    rank = len(w.out)
    kept, w = w.cropped(x.shape[2:])
    x = b.slice(x, [range(n) for n in (*x.shape[:2], *kept)])
    read, written = (("n", "c", *(f"{c}{k}" for k in range(rank))) for c in "xy")
    attributes: dict[str, Any] = {"kind": kind, "kernel": w.kernel, **w.attributes}
    if kind == "average":
        attributes |= given if given.get("count_include_pad") else {"size": x.shape[2:]}
    sizes = {f"y{k}": n for k, n in enumerate(w.out)}
    return b.compute("pool", [x], [read], written, x.dtype, attributes, frozenset((*read, *written)), sizes)


def average(b: Builder, x: Value, w: WindowGeometry, included: bool, divisor: int | None = None) -> Value:
    """Compute means; padding counts if `included`, but not the elements that a last window reads beyond it."""
    size = x.shape[2:]
    beyond = [a > p for a, p in zip(w.beyond(size), w.high, strict=True)]
    if divisor is None and not (included and any(beyond)):
        return pooled(b, x, w, "average", count_include_pad=included)
    total = pooled(b, x, w, "average", count_include_pad=True)
    shares = shares_of(b, w, size, included, divisor, x.dtype)
    return b.cells(lambda a, s: a * s, total, shares, dtype=x.dtype)


def shares_of(
    b: Builder, w: WindowGeometry, size: Ints, included: bool, divisor: int | None, dtype: str
) -> Value:
    """Compute for each window the number of its taps divided by the number of taps that count."""
    taps = math.prod(w.kernel)
    if divisor is not None:
        return b.full((), taps / divisor, dtype)
    counts = np.ones(())
    for o, s, k, d, low, high, n in zip(
        w.out, w.strides, w.kernel, w.dilations, w.low, w.high, size, strict=True
    ):
        check_written(o * k)
        places = np.arange(o)[:, None] * s + np.arange(k) * d - low
        inside = (places >= -low) & (places < n + high) if included else (places >= 0) & (places < n)
        check_written(counts.size * o)
        counts = np.multiply.outer(counts, inside.sum(axis=1))
    return b.cast(b.literal((taps / counts).astype(np.float64)), dtype)


def places_of_maxima(
    b: Builder, x: Value, values: Value, w: WindowGeometry, paces: Ints | None = None, lead: Ints = (0, 0)
) -> Value:
    """Compute the position of each maximum (the first of equal ones), tap by tap.

    `paces` give per spatial dimension the distance at which neighbors are counted (default: row by row), `lead` the
    same for the two dimensions before them.
    """
    size = x.shape[2:]
    paces = [math.prod(size[k + 1 :]) for k in range(len(size))] if paces is None else paces
    padded = b.pad(x, [0, 0, *w.low], [0, 0, *w.beyond(size)], fill=identity("max", x.dtype))
    check_taps(math.prod(w.kernel))
    taps = list(np.ndindex(*w.kernel))
    parts = [_tap(b, padded, tap, w) for tap in taps]
    result: Any = ("const", 0)
    for k, tap in reversed(list(enumerate(taps))):
        hit: Any = ("eq", ("input", k + 1), ("input", 0))
        if is_float(x.dtype):  # a window that holds NaN has it as its maximum
            hit = ("or", hit, ("is_nan", ("input", k + 1)))
        result = ("where", hit, _place(tap, w, paces), result)
    for k, pace in enumerate(lead):
        if pace and x.shape[k] > 1:
            result = ("add", result, ("mul", ("index", f"d{k}"), ("const", pace)))
    return b.elements(("cast", "int64", result), [values, *parts], "int64")


def _tap(b: Builder, padded: Value, tap: Ints, w: WindowGeometry) -> Value:
    ranges = [
        range(k * d, k * d + s * (o - 1) + 1, s)
        for k, d, s, o in zip(tap, w.dilations, w.strides, w.out, strict=True)
    ]
    return b.slice(padded, [*(range(s) for s in padded.shape[:2]), *ranges])


def _place(tap: Ints, w: WindowGeometry, paces: Ints) -> Any:
    """Compute the position that a tap reads, from the coordinates of the window."""
    total: Any = None
    for k, pace in enumerate(paces):
        start = tap[k] * w.dilations[k] - w.low[k]
        line = ("add", ("mul", ("index", f"d{2 + k}"), ("const", w.strides[k])), ("const", start))
        term = ("mul", line, ("const", pace))
        total = term if total is None else ("add", total, term)
    return total


def _windows(b: Builder, node: OnnxNode) -> tuple[Value, WindowGeometry]:
    x = b.value(node.inputs[0])
    if not 3 <= len(x.shape) <= 5:
        raise b.refuse(f"is supported for one to three spatial dimensions, not on {list(x.shape)}")
    kernel = [int(k) for k in node.get("kernel_shape")]
    return x, geometry_of(node, x.shape[2:], kernel)


def _max_pool(b: Builder, node: OnnxNode) -> list[Value | None]:
    """Compute the maxima; positions count all elements of the tensor, the image's column by column if so ordered."""
    x, w = _windows(b, node)
    values = pooled(b, x, w, "max")
    if len(node.outputs) < 2 or not node.outputs[1]:
        return [values]
    size = x.shape[2:]
    plane = math.prod(size)
    by_columns = [math.prod(size[:k]) for k in range(len(size))]
    paces = by_columns if node.get("storage_order", 0) else None
    return [values, places_of_maxima(b, x, values, w, paces, (x.shape[1] * plane, plane))]


def _average_pool(b: Builder, node: OnnxNode) -> Value:
    x, w = _windows(b, node)
    return average(b, x, w, bool(node.get("count_include_pad", 0)))


def _lp_pool(b: Builder, node: OnnxNode) -> Value:
    """Compute the p-norm of each window: the mean of the powers, times the number of taps, and its root."""
    x, w = _windows(b, node)
    if any(a > p for a, p in zip(w.beyond(x.shape[2:]), w.high, strict=True)):
        raise b.refuse("reaches beyond its padding, of which the standard says no norm")
    p, taps = float(node.get("p", 2)), float(math.prod(w.kernel))
    inner = "float32" if x.dtype in HALF else x.dtype
    powers = b.cells(lambda a: _power(call("abs", a), p), x, dtype=inner)
    means = pooled(b, powers, w, "average", count_include_pad=True)
    return b.cells(lambda a: _power(a * taps, 1 / p), means, dtype=x.dtype, within=inner)


def _power(a: Any, exponent: float) -> Any:
    return a * a if exponent == 2 else call("sqrt", a) if exponent == 0.5 else call("pow", a, exponent)


POOLING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("MaxPool",), composed(_max_pool)),
    OnnxTranslator(("AveragePool",), composed(_average_pool)),
    OnnxTranslator(("LpPool",), composed(_lp_pool)),
)
