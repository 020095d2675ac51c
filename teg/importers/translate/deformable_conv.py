"""Deformable convolution: every tap of every window is sampled at its offset, then one product."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value, check_written
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed, operand, optional_operand
from tapestry.teg.importers.translate.sampling import Rules, interpolated
from tapestry.teg.importers.translate.translation import OnnxTranslator

OUTSIDE_IS_ZERO = Rules("zeros", corners=True, cubic_bounded=True)


def _tap_lines(node: OnnxNode, kernel: Sequence[int], out: Sequence[int]) -> list[np.ndarray]:
    """Compute per spatial dimension the position of each tap of each window without its offset, `(1, taps, *out)`."""
    rank = len(kernel)
    strides, dilations = ([int(v) for v in node.get(a) or (1,) * rank] for a in ("strides", "dilations"))
    low = [int(v) for v in node.get("pads") or (0,) * 2 * rank][:rank]
    check_written(math.prod((*kernel, *out)))
    grid = np.meshgrid(*map(np.arange, kernel), *map(np.arange, out), indexing="ij")
    return [
        (grid[k] * dilations[k] + grid[rank + k] * strides[k] - low[k]).reshape(1, math.prod(kernel), *out)
        for k in range(rank)
    ]


def _deform_conv(b: Builder, node: OnnxNode) -> Value:
    """Translate a deformable convolution; groups of offsets are treated as separate images."""
    x, weight, offset = (operand(b, node, k) for k in range(3))
    bias, mask = optional_operand(b, node, 3), optional_operand(b, node, 4)
    (n, channels, *spatial), kernel, out = x.shape, weight.shape[2:], offset.shape[2:]
    groups, shifts = int(node.get("group", 1)), int(node.get("offset_group", 1))
    taps, rank = math.prod(kernel), len(spatial)
    if not is_float(x.dtype) or channels != weight.shape[1] * groups or channels % shifts:
        raise b.refuse(f"has weights {list(weight.shape)} in {groups} groups that do not fit {list(x.shape)}")
    pictures = b.reshape(x, (n * shifts, channels // shifts, *spatial))
    moved = b.reshape(offset, (n * shifts, taps, rank, *out))
    places = []
    for k, line in enumerate(_tap_lines(node, kernel, out)):
        own = b.squeeze(b.part(moved, 2, range(k, k + 1)), 2)
        start = b.literal(line.astype(numpy_dtype(offset.dtype)))
        places.append(b.cells(lambda a, s: a + s, own, start, dtype=offset.dtype))
    found = interpolated(b, pictures, places, "linear", OUTSIDE_IS_ZERO)
    if mask is not None:
        share = b.reshape(mask, (n * shifts, 1, taps, *out))
        found = b.cells(lambda a, m: a * m, found, share, dtype=x.dtype)
    read = b.reshape(found, (n, groups, channels // groups, taps, *out))
    rows = b.reshape(weight, (groups, weight.shape[0] // groups, channels // groups, taps))
    lines = tuple(f"y{k}" for k in range(rank))
    product = b.contract(
        [read, rows], [("n", "g", "c", "t", *lines), ("g", "o", "c", "t")], ("n", "g", "o", *lines)
    )
    result = b.reshape(product, (n, weight.shape[0], *out))
    if bias is None:
        return result
    vector = b.reshape(bias, (bias.shape[0], *(1,) * rank))
    return b.cells(lambda a, c: a + c, result, vector, dtype=x.dtype)


DEFORMING: tuple[OnnxTranslator, ...] = (OnnxTranslator(("DeformConv",), composed(_deform_conv)),)
