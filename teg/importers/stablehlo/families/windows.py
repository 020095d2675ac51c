"""Reductions over sliding windows, cumulative ones among them, and the gradient of a maximum over windows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tapestry.teg.dtypes import is_float
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, Expr, X, Y
from tapestry.teg.importers.stablehlo.families.reductions import combine, with_first
from tapestry.teg.importers.stablehlo.module import Operation, Region
from tapestry.teg.importers.stablehlo.regions import COMBINE, monoid_of, replaces
from tapestry.teg.importers.stablehlo.unrolling import RegionTranslator, Runner
from tapestry.teg.importers.translate.translation import check_taps, plain_labels
from tapestry.teg.operators.monoids import identity


class HloWindows(NamedTuple):
    """Window parameters per dimension: taps, steps between windows and between taps, padding before and after."""

    taps: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.taps)

    def sliding(self) -> list[int]:
        """Return the dimensions along which there is more than one element or step."""
        each = zip(self.taps, self.strides, self.low, self.high, strict=True)
        return [k for k, (t, s, a, b) in enumerate(each) if (t, s, a, b) != (1, 1, 0, 0)]


def _windows(operation: Operation, rank: int) -> HloWindows:
    ones = (1,) * rank
    padding = operation.get("padding")
    pads = [(0, 0)] * rank if padding is None else [(int(a), int(b)) for a, b in padding]
    return HloWindows(
        tuple(operation.get("window_dimensions") or ones),
        tuple(operation.get("window_strides") or ones),
        tuple(operation.get("window_dilations") or ones),
        tuple(a for a, _ in pads),
        tuple(b for _, b in pads),
    )


def _reduce_window(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    e, count = runner.emitter, len(operands) // 2
    values, firsts = operands[:count], operands[count:]
    windows = _windows(operation, len(values[0].shape))
    monoid = monoid_of(operation.regions[0], values[0].dtype == "bool") if count == 1 else None
    if monoid is None:
        return _by_body(runner, operation, values, firsts, windows)
    value = _opened(e, operation, values[0], windows.rank, identity(monoid, values[0].dtype))
    scanned = _scan(e, value, windows, monoid)
    made = scanned or _pooled(e, value, windows, monoid) or _doubled(e, value, windows, monoid)
    return [with_first(e, made, firsts[0], monoid)]


def _opened(e: Emitter, operation: Operation, value: Value, rank: int, fill: float) -> Value:
    """Insert the gaps that the operation puts between elements."""
    return e.spread(value, [d - 1 for d in operation.get("base_dilations") or (1,) * rank], fill)


def _scan(e: Emitter, value: Value, w: HloWindows, monoid: str) -> Value | None:
    """Translate a window over everything before (or after) each element to a cumulative reduction, else None."""
    sliding = w.sliding()
    if len(sliding) != 1:
        return None
    (axis,) = sliding
    size = value.shape[axis]
    before, after = (w.low[axis], w.high[axis]) == (size - 1, 0), (w.low[axis], w.high[axis]) == (0, size - 1)
    if w.taps[axis] != size or w.strides[axis] != 1 or w.dilations[axis] != 1 or not (before or after):
        return None
    labels = plain_labels(w.rank)
    attributes = {"axis": labels[axis], "monoid": monoid, "exclusive": False, "reverse": after and not before}
    return e.compute("scan", [value], [labels], labels, value.dtype, attributes, frozenset((labels[axis],)))


def _pooled(e: Emitter, value: Value, w: HloWindows, monoid: str) -> Value | None:
    """Translate windows over one to three dimensions of floats to pools; None for other windows.

    A sum is an average times its taps.
    """
    sliding = w.sliding()
    if not (monoid in ("max", "sum") and is_float(value.dtype) and 1 <= len(sliding) <= 3):
        return None
    if any(w.low[k] < 0 or w.high[k] < 0 for k in sliding):
        return None
    others = [k for k in range(w.rank) if k not in sliding]
    order = [*others, *sliding]
    turned = e.permute(value, order)
    space = turned.shape[len(others) :]
    lead = turned.shape[: len(others)]
    flat = e.reshape(turned, (math.prod(lead[:-1]), math.prod(lead[-1:]), *space))
    extents = [(w.taps[k] - 1) * w.dilations[k] + 1 for k in sliding]
    out = [
        (s + w.low[k] + w.high[k] - n) // w.strides[k] + 1
        for s, k, n in zip(space, sliding, extents, strict=True)
    ]
    read, written = tuple(f"x{k}" for k in sliding), tuple(f"y{k}" for k in sliding)
    high = [
        max((o - 1) * w.strides[k] + n - w.low[k] - s, 0)
        for o, k, n, s in zip(out, sliding, extents, space, strict=True)
    ]
    kept = [
        min(s, (o - 1) * w.strides[k] + n - w.low[k])
        for o, k, n, s in zip(out, sliding, extents, space, strict=True)
    ]
    flat = e.slice(flat, [*(range(n) for n in flat.shape[:2]), *(range(n) for n in kept)])
    kernel = tuple(w.taps[k] for k in sliding)
    attributes = {
        "kind": "max" if monoid == "max" else "average",
        "kernel": kernel,
        "strides": tuple(w.strides[k] for k in sliding),
        "pads": (*(w.low[k] for k in sliding), *high),
        "dilations": tuple(w.dilations[k] for k in sliding),
        **({} if monoid == "max" else {"count_include_pad": True}),
    }
    labels, target = ("n", "c", *read), ("n", "c", *written)
    whole = frozenset((*labels, *target))
    sizes = dict(zip(written, out, strict=True))
    made = e.compute("pool", [flat], [labels], target, value.dtype, attributes, whole, sizes)
    opened = e.reshape(made, (*lead, *out))
    back = e.permute(opened, [order.index(k) for k in range(w.rank)])
    taps = math.prod(kernel)
    return back if monoid == "max" else e.cell(("mul", X, ("const", float(taps))), back)


def _doubled(e: Emitter, value: Value, w: HloWindows, monoid: str) -> Value:
    """Reduce windows by any monoid: windows of two, four, eight elements are combined to the length wanted."""
    value = e.pad(value, w.low, w.high, identity(monoid, value.dtype))
    for axis in w.sliding():
        size, taps, step = value.shape[axis], w.taps[axis], w.dilations[axis]
        made, length = None, 0
        power, reach = value, 1
        for bit in range(taps.bit_length()):
            if taps >> bit & 1:
                made, length = _joined(e, made, length, power, step, axis, monoid), length + reach
            if taps >> (bit + 1):
                power = _joined(e, power, reach, power, step, axis, monoid)
                reach *= 2
        assert made is not None
        count = (size - (taps - 1) * step - 1) // w.strides[axis] + 1
        value = e.part(made, axis, range(0, (count - 1) * w.strides[axis] + 1, w.strides[axis]))
    return value


def _joined(e: Emitter, a: Value | None, length: int, b: Value, step: int, axis: int, monoid: str) -> Value:
    """Combine windows of `length` elements with those that follow: `a[i]` and `b[i + length]`."""
    if a is None:
        return b
    count = min(a.shape[axis], b.shape[axis] - length * step)
    later = e.part(b, axis, range(length * step, length * step + count))
    return combine(e, e.part(a, axis, range(count)), later, monoid)


def _by_body(
    runner: Runner, operation: Operation, values: Sequence[Value], firsts: Sequence[Value], w: HloWindows
) -> list[Value]:
    """Reduce windows by any body: tap after tap, starting with the initial values of the reduction."""
    e = runner.emitter
    taps = [_taps(e, operation, v, w, f) for v, f in zip(values, firsts, strict=True)]
    results = [e.relabel(f, (), ("",) * w.rank, t[0].shape) for f, t in zip(firsts, taps, strict=True)]
    for k in range(len(taps[0])):
        runner.count(operation.regions[0], k + 1)
        results = runner.elementwise(operation.regions[0], [*results, *(t[k] for t in taps)])
    return results


def _taps(e: Emitter, operation: Operation, value: Value, w: HloWindows, first: Value) -> list[Value]:
    """Slice each tap of all windows as a tensor of the result's shape."""
    known = e.known(first)
    if known is None:
        raise e.refuse("is supported only where what it begins with is known at import")
    check_taps(math.prod(w.taps))
    fill = float(known.reshape(())) if is_float(value.dtype) else known.reshape(()).item()
    padded = e.pad(_opened(e, operation, value, w.rank, fill), w.low, w.high, fill)
    counts = [
        (s - (t - 1) * d - 1) // stride + 1
        for s, t, d, stride in zip(padded.shape, w.taps, w.dilations, w.strides, strict=True)
    ]
    parts = []
    for place in np.ndindex(*w.taps):
        starts = [p * d for p, d in zip(place, w.dilations, strict=True)]
        parts.append(
            e.slice(
                padded,
                [
                    range(s, s + (n - 1) * stride + 1, stride)
                    for s, n, stride in zip(starts, counts, w.strides, strict=True)
                ],
            )
        )
    return parts


def _select_and_scatter(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Translate a select-and-scatter: every window passes its number to the tap that it selects.

    Taps are then placed where they were read.
    """
    e = runner.emitter
    value, source, first = operands
    w = _windows(operation, len(value.shape))
    select, scatter = operation.regions
    monoid = monoid_of(scatter, source.dtype == "bool")
    if monoid not in ("sum", "max", "min") and not replaces(scatter):
        raise e.refuse("is supported where it adds up or keeps an extreme")
    assert monoid is not None
    lowest = e.full((), identity("max", value.dtype), value.dtype)
    taps = _taps(e, operation, value, w, lowest)
    chosen = _selected(runner, select, taps)
    fill = identity(monoid, source.dtype)
    placed: list[Value] = []
    for k, place in enumerate(np.ndindex(*w.taps)):
        won: Expr = ("where", ("eq", X, ("const", k)), Y, ("const", fill))
        part = e.spread(e.cell(won, chosen, source, dtype=source.dtype), [s - 1 for s in w.strides], fill)
        before = [p * d - a for p, d, a in zip(place, w.dilations, w.low, strict=True)]
        after = [n - a - s for n, a, s in zip(value.shape, before, part.shape, strict=True)]
        placed.append(e.pad(part, before, after, fill))
    total: Expr = X
    for k in range(1, len(placed)):
        total = (COMBINE[monoid], total, ("input", k))
    return [with_first(e, e.cell(total, *placed), first, monoid)]


def _selected(runner: Runner, select: Region, taps: Sequence[Value]) -> Value:
    """Compute the number of the tap that each window selects, by comparing one tap after the other."""
    e = runner.emitter
    best, chosen = taps[0], e.full(taps[0].shape, 0, "int32")
    for k, tap in enumerate(taps[1:], start=1):
        (stays,) = runner.elementwise(select, [best, tap])
        best = e.cell(("where", X, Y, ("input", 2)), stays, best, tap, dtype=tap.dtype)
        chosen = e.cell(("where", X, Y, ("const", k)), stays, chosen, dtype="int32")
    return chosen


WINDOWS: tuple[RegionTranslator, ...] = (
    RegionTranslator(("stablehlo.reduce_window",), _reduce_window),
    RegionTranslator(("stablehlo.select_and_scatter",), _select_and_scatter),
)
