"""Windows laid out as columns, and columns added back into images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.convolution import spread
from tapestry.teg.importers.torch.families.slice_scatter import replaced
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.columns import added_columns, tap_spans


def _im2col(t: Tracer, x: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """Lay out windows as columns: each tap is a strided slice of the padded image; taps become channels."""
    kernel, dilation, padding, stride = (spread(g, 2) for g in (kernel_size, dilation, padding, stride))
    alone = len(x.shape) == 3
    batch = t.unsqueeze(x, 0) if alone else x
    n, c, *size = batch.shape
    padded = t.pad(batch, [0, 0, *padding], [0, 0, *padding])
    out = [
        (s + 2 * p - d * (k - 1) - 1) // q + 1
        for s, p, d, k, q in zip(size, padding, dilation, kernel, stride, strict=True)
    ]
    parts = [
        t.unsqueeze(t.slice(padded, [range(n), range(c), *tap_spans(out, tap, dilation, stride)]), 2)
        for tap in np.ndindex(*kernel)
    ]
    columns = t.reshape(t.concat(parts, 2), (n, c * math.prod(kernel), math.prod(out)))
    return t.squeeze(columns, 0) if alone else columns


def _col2im(
    t: Tracer,
    x: Value,
    output_size: Sequence[int],
    kernel_size: Any,
    dilation: Any,
    padding: Any,
    stride: Any,
) -> Value:
    """Add the columns of each tap at the places where the tap reads, without the padding."""
    kernel, dilation, padding, stride = (spread(g, 2) for g in (kernel_size, dilation, padding, stride))
    alone = len(x.shape) == 2
    batch = t.unsqueeze(x, 0) if alone else x
    found = added_columns(t, batch, output_size, kernel, dilation, stride, padding, padding)
    return t.squeeze(found, 0) if alone else found


def _unfold_backward(
    t: Tracer, grad_in: Value, input_sizes: Sequence[int], dim: int, size: int, step: int
) -> Value:
    """Add each tap of the windows at the places it came from."""
    axis, last = t.axis(dim, len(input_sizes)), len(grad_in.shape) - 1
    count = grad_in.shape[axis]
    total: Value | None = None
    for k in range(size):
        part = t.squeeze(t.part(grad_in, last, range(k, k + 1)), last)
        zeros = t.full(input_sizes, 0, grad_in.dtype)
        part = replaced(t, zeros, part, axis, range(k, k + step * (count - 1) + 1, step))
        total = part if total is None else t.cells(lambda a, b: a + b, total, part, dtype=grad_in.dtype)
    assert total is not None
    return total


COLUMNS: tuple[TorchOperator, ...] = (
    TorchOperator(aten("im2col"), _im2col),
    TorchOperator(aten("col2im"), _col2im),
    TorchOperator(aten("unfold_backward"), _unfold_backward),
)
