"""Convolution and pooling: each device pads what its windows read beyond the tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapestry.teg.exporters.spmd.array_text import PRODUCT, ArrayText, NotWritable, TextValue
from tapestry.teg.exporters.spmd.writers.operand import OperatorWriter, TextOperand, extents
from tapestry.teg.graph import Definition
from tapestry.teg.operators.monoids import identity


def _margins(
    definition: Definition, kernel: Sequence[int], spatial: np.ndarray, operand: TextOperand
) -> np.ndarray:
    """Return how much padding each device adds before and after, `(devices, spatial dims, 2)`."""
    rank = len(kernel)
    strides, dilations, pads = definition["strides"], definition["dilations"], definition["pads"]
    result = np.zeros((len(spatial), rank, 2), np.int64)
    for k in range(rank):
        start, count = spatial[:, k, 0], spatial[:, k, 1] - spatial[:, k, 0]
        begin, size = operand.box[:, 2 + k, 0], extents(operand.box)[:, 2 + k]
        low = strides[k] * start - pads[k]
        length = strides[k] * (count - 1) + (kernel[k] - 1) * dilations[k] + 1
        before = np.where(size > 0, np.clip(begin - low, 0, length), length)
        result[:, k, 0] = before
        result[:, k, 1] = length - before - size
    return result


def _padded(xp: ArrayText, value: TextValue, margins: np.ndarray, fill: object) -> TextValue:
    if not margins[xp.active].any():
        return value
    return xp.pad(
        value, np.concatenate([np.zeros_like(margins[:, :1]).repeat(2, axis=1), margins], axis=1), fill
    )


def _own_padding(xp: ArrayText, definition: Definition, margins: np.ndarray) -> list[int] | None:
    """Return the padding on both sides that makes the same windows as the margins; None where there is none."""
    before, after = margins[xp.active, :, 0], margins[xp.active, :, 1]
    if not len(before) or (before != before[0]).any():
        return None
    # Padding of less than a stride more behind makes no window more.
    fits = (before >= after) & (before - after < np.array(definition["strides"]))
    return list(map(int, before[0])) if fits.all() else None


def _numbers(values: Sequence[int]) -> str:
    """Return the text of a setting per spatial dimension, as one number where all are equal."""
    return str(values[0]) if len(set(values)) == 1 else f"({', '.join(map(str, values))})"


def write_conv(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a convolution; padding that is even on all sides is the function's own."""
    signature = definition.signature
    assert signature is not None
    x, w = (o.value for o in operands)
    kernel = [_whole(xp, w.shape[:, 2 + k]) for k in range(w.rank - 2)]
    first = signature.position("y0")
    spatial = index[:, first : first + len(kernel)]
    margins = _margins(definition, kernel, spatial, operands[0])
    named = {"stride": _numbers(definition["strides"])} if any(s > 1 for s in definition["strides"]) else {}
    if any(d > 1 for d in definition["dilations"]):
        named["dilation"] = _numbers(definition["dilations"])
    even = _own_padding(xp, definition, margins)
    if even is not None:
        if any(even):
            named["padding"] = _numbers(even)
    else:
        x = _padded(xp, x, margins, 0)
    if definition["groups"] > 1:
        named["groups"] = xp.number(extents(index)[:, signature.position("g")])
    shape = np.concatenate([x.shape[:, :1], w.shape[:, :1], extents(spatial)], axis=1)
    like = TextValue("", shape, x.dtype)
    call = xp.call(f"conv{len(kernel)}d", xp.short(x).text, xp.short(w).text, like=like, **named)
    return (call,)


def _whole(xp: ArrayText, sizes: np.ndarray) -> int:
    same = xp.same(sizes)
    assert same is not None, "a kernel is never split"
    return same


def write_pool(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a pooling; an average divides by the number of taps that count, which may differ by place."""
    operand, kernel = operands[0], definition["kernel"]
    value, spatial = operand.value, index[:, 2:]
    maximum, floats = definition["kind"] == "max", operand.value.dtype.startswith(("float", "bfloat"))
    if not maximum and any(d > 1 for d in definition["dilations"]):
        raise NotWritable("an average over a dilated window")
    margins = _margins(definition, kernel, spatial, operand)
    if maximum and not floats:
        value = xp.cast(value, "float64")
    named = {"stride": _numbers(definition["strides"])}
    even = _own_padding(xp, definition, margins)
    if xp.eager and even is not None and all(2 * p <= k for p, k in zip(even, kernel, strict=True)):
        if any(even):
            named["padding"] = _numbers(even)
    else:
        value = _padded(xp, value, margins, identity("max", value.dtype) if maximum else 0)
    x = xp.short(value)
    shape = np.concatenate([value.shape[:, :2], extents(spatial)], axis=1)
    like = replace(value, shape=shape)
    if maximum:
        if any(d > 1 for d in definition["dilations"]):
            named["dilation"] = _numbers(definition["dilations"])
        call = xp.call(f"max_pool{len(kernel)}d", x.text, _numbers(kernel), like=like, **named)
        return (xp.cast(call, operand.value.dtype),)
    counts = [_counts(definition, k, spatial[:, k]) for k in range(len(kernel))]
    pool = f"avg_pool{len(kernel)}d"
    if all(set(c) == {kernel[k]} for k, rows in enumerate(counts) for c in rows if c):
        return (xp.call(pool, x.text, _numbers(kernel), like=like, **named),)
    total = xp.call(pool, x.text, _numbers(kernel), like=like, **named)
    text = f"{total.text} * {math.prod(kernel)}"
    for k, rows in enumerate(counts):
        taps = xp.named(
            TextValue(f"{xp.function('array')}({xp.numbers.table([str(c) for c in rows])})", shape, "int64")
        )
        tail = ", None" * (len(kernel) - 1 - k)
        text += f" / {taps.text}[:{tail}]" if tail else f" / {taps.text}"
    return (TextValue(text, shape, value.dtype, PRODUCT),)


def _counts(definition: Definition, axis: int, span: np.ndarray) -> list[tuple[int, ...]]:
    """Count, by device, the taps of each output position along one dimension that an average divides by."""
    kernel, stride = definition["kernel"][axis], definition["strides"][axis]
    rank = len(definition["kernel"])
    low, high = definition["pads"][axis], definition["pads"][rank + axis]
    result = []
    for start, stop in span.tolist():
        places = np.arange(start, stop)[:, None] * stride - low + np.arange(kernel)
        inside = np.ones(places.shape, bool)
        if "size" in dict(definition.attributes):
            included = definition.get("count_include_pad", False)
            first, last = (-low, high) if included else (0, 0)
            inside = (places >= first) & (places < definition["size"][axis] + last)
        result.append(tuple(inside.sum(axis=1).tolist()))
    return result


WINDOWS: dict[str, OperatorWriter] = {"conv": write_conv, "pool": write_pool}
