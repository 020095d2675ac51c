"""Columns of windows added back into images of any rank."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed, operand
from tapestry.teg.importers.translate.translation import OnnxTranslator, check_taps

Ints = Sequence[int]


def tap_spans(out: Ints, tap: Ints, dilations: Ints, strides: Ints) -> list[range]:
    """Return the padded coordinates that one tap of every window reads."""
    return [
        range(k * d, k * d + s * (n - 1) + 1, s)
        for n, k, d, s in zip(out, tap, dilations, strides, strict=True)
    ]


def added_columns(
    b: Builder, x: Value, size: Ints, kernel: Ints, dilations: Ints, strides: Ints, low: Ints, high: Ints
) -> Value:
    """Sum the taps of `x`, `(n, c * taps, windows)`, each placed where it reads, without the padding.

    Raises:
        ImportFailure: the columns do not fit the image of `size`.
    """
    wide = [s + a + z for s, a, z in zip(size, low, high, strict=True)]
    out = [
        (w - d * (k - 1) - 1) // s + 1 for w, d, k, s in zip(wide, dilations, kernel, strides, strict=True)
    ]
    taps = math.prod(kernel)
    check_taps(taps)
    n, channels, count = x.shape
    if min(out) < 1 or count != math.prod(out) or channels % taps:
        raise b.refuse(
            f"has columns {list(x.shape)} that do not fit windows of {list(kernel)} in {list(size)}"
        )
    opened = b.reshape(x, (n, channels // taps, taps, *out))
    total: Value | None = None
    for place, tap in enumerate(np.ndindex(*kernel)):
        part = b.squeeze(b.part(opened, 2, range(place, place + 1)), 2)
        for axis, (span, width) in enumerate(
            zip(tap_spans(out, tap, dilations, strides), wide, strict=True), 2
        ):
            part = _among_zeros(b, part, axis, span, width)
        total = part if total is None else b.cells(lambda a, c: a + c, total, part, dtype=x.dtype)
    assert total is not None
    crop = [range(a, a + s) for a, s in zip(low, size, strict=True)]
    return b.slice(total, [*(range(s) for s in total.shape[:2]), *crop])


def _among_zeros(b: Builder, x: Value, axis: int, span: range, size: int) -> Value:
    """Place the elements at `span` of a dimension of `size` that is zero everywhere else."""
    spread = b.dilate(x, axis, span.step)
    rest = size - span.start - spread.shape[axis]
    low, high = ([n if k == axis else 0 for k in range(len(x.shape))] for n in (span.start, rest))
    return b.pad(spread, low, high)


def _col2im(b: Builder, node: OnnxNode) -> Value:
    t, x = b.translation, operand(b, node, 0)
    size, kernel = t.integers(node, 1, "image shape") or (), t.integers(node, 2, "block shape") or ()
    rank = len(size)
    dilations, strides = (tuple(int(v) for v in node.get(a) or (1,) * rank) for a in ("dilations", "strides"))
    pads = tuple(int(v) for v in node.get("pads") or (0,) * 2 * rank)
    return added_columns(b, x, size, kernel, dilations, strides, pads[:rank], pads[rank:])


COLUMNS: tuple[OnnxTranslator, ...] = (OnnxTranslator(("Col2Im",), composed(_col2im)),)
