"""Fourier transforms; complex numbers are pairs of real numbers outside, complex elements inside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.dtypes import COMPLEX_DTYPES, HALF, REAL_DTYPES
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value, check_written
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed, operand, optional_operand
from tapestry.teg.importers.translate.gathering import read_rows
from tapestry.teg.importers.translate.translation import OnnxTranslator, normal_axis


def part_of(name: str, b: Builder, x: Value) -> Value:
    """Return the real or the imaginary part (`real`, `imag`); a real number is its own real part."""
    if x.dtype not in REAL_DTYPES:
        return x if name == "real" else b.full(x.shape, 0, x.dtype)
    return b.elements((name, ("input", 0)), [x], REAL_DTYPES[x.dtype])


def pairs(b: Builder, x: Value) -> Value:
    """Convert complex numbers to pairs along a new last dimension."""
    rank = len(x.shape)
    return b.concat([b.unsqueeze(part_of(name, b, x), rank) for name in ("real", "imag")], rank)


def from_pairs(b: Builder, x: Value) -> Value:
    """Convert pairs to complex numbers, the inverse of `pairs`."""
    axis = len(x.shape) - 1
    parts = [b.squeeze(b.part(x, axis, range(k, k + 1)), axis) for k in range(2)]
    return b.elements(("complex", ("input", 0), ("input", 1)), parts, COMPLEX_DTYPES[x.dtype])


def transformed(b: Builder, x: Value, axes: Sequence[int], inverse: bool) -> Value:
    """Compute Fourier transforms of complex lines along each of `axes`; the inverse divides by their length."""
    for axis in axes:
        x = b.along("fft", x, axis, x.dtype, {"inverse": inverse})
    return x


def mirrored(b: Builder, x: Value, axis: int, size: int) -> Value:
    """Extend `x`, the first half of a real line's frequencies, to all `size` frequencies."""
    rest = size - x.shape[axis]
    if rest <= 0:
        return x
    turned = b.part(x, axis, range(rest, 0, -1))
    return b.concat([x, b.elements(("conj", ("input", 0)), [turned], x.dtype)], axis)


def sized(b: Builder, x: Value, sizes: Sequence[int | None], axes: Sequence[int]) -> Value:
    """Crop lines, or pad them with zeros, to the sizes that are transformed."""
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    for size, axis in zip(sizes, axes, strict=True):
        high[axis] = 0 if size is None or size < 0 else size - x.shape[axis]
    return b.pad(x, low, high) if any(high) else x


def _complex(b: Builder, x: Value) -> Value:
    """Convert the one or two real numbers in the last dimension to complex numbers."""
    x = b.cast(x, "float32") if x.dtype in HALF else x
    if x.dtype not in COMPLEX_DTYPES or x.shape[-1] not in (1, 2):
        raise b.refuse(
            f"is of one or two real numbers in the last dimension, not {x.dtype} of {list(x.shape)}"
        )
    return (
        from_pairs(b, x)
        if x.shape[-1] == 2
        else b.cast(b.squeeze(x, len(x.shape) - 1), COMPLEX_DTYPES[x.dtype])
    )


def _forward(b: Builder, x: Value, axis: int, length: int, onesided: bool) -> Value:
    """Compute the frequencies as pairs; for real lines only the first half if `onesided`."""
    found = transformed(b, sized(b, x, [length], [axis]), [axis], inverse=False)
    return pairs(b, b.part(found, axis, range(length // 2 + 1)) if onesided else found)


def _backward(b: Builder, x: Value, axis: int, length: int, onesided: bool) -> Value:
    """Compute the line of these frequencies: pairs, or real numbers where half of the frequencies determine it."""
    if not onesided:
        return pairs(b, transformed(b, sized(b, x, [length], [axis]), [axis], inverse=True))
    half = sized(b, x, [length // 2 + 1], [axis])
    found = transformed(b, mirrored(b, half, axis, length), [axis], inverse=True)
    return b.unsqueeze(part_of("real", b, found), len(found.shape))


def _dft(b: Builder, node: OnnxNode) -> Value:
    """Translate DFT, whose axis was an attribute before version 20."""
    x, t = operand(b, node, 0), b.translation
    given = t.constant(node, 2, "axis")
    axis = (
        int(given.reshape(-1)[0]) if given is not None else int(node.get("axis", 1 if t.opset < 20 else -2))
    )
    axis = normal_axis(node, axis, len(x.shape))
    if axis == len(x.shape) - 1:
        raise b.refuse("transforms its last dimension, which holds the parts of the numbers")
    inverse, onesided = bool(node.get("inverse", 0)), bool(node.get("onesided", 0))
    size = x.shape[axis]
    length = t.constant(node, 1, "length")
    count = 2 * (size - 1) if inverse and onesided else size
    count = count if length is None else int(length.reshape(-1)[0])
    if count < 1:
        raise b.refuse(f"has no transform of length {count}")
    run = _backward if inverse else _forward
    return b.cast(run(b, _complex(b, x), axis, count, onesided), x.dtype)


def _stft(b: Builder, node: OnnxNode) -> Value:
    """Split the signal into frames, multiply them by the window, and transform each."""
    signal, t = operand(b, node, 0), b.translation
    window, stated = optional_operand(b, node, 2), t.constant(node, 3, "frame length")
    pace = t.constant(node, 1, "frame step")
    step = 0 if pace is None else int(pace.reshape(-1)[0])
    width = signal.shape[1] if window is None else window.shape[0]
    length = int(stated.reshape(-1)[0]) if stated is not None else width
    width = width if window is not None else length
    count = 1 + (signal.shape[1] - length) // step if step > 0 else 0
    if count < 1 or width > length:
        raise b.refuse(f"has no frame of {length} with a window of {width} in {signal.shape[1]} elements")
    check_written(count * width)
    rows = b.literal(np.arange(count)[:, None] * step + np.arange(width))
    site = b.fresh()
    frames = b.value(read_rows(t, site, signal.name, rows.name, site, 1))
    if window is not None:
        factors = b.reshape(window, (width, 1))
        frames = b.cells(lambda a, w: a * w, frames, factors, dtype=signal.dtype)
    found = _forward(b, _complex(b, frames), 2, length, bool(node.get("onesided", 1)))
    return b.cast(found, signal.dtype)


SPECTRAL: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("DFT",), composed(_dft)),
    OnnxTranslator(("STFT",), composed(_stft)),
)
