"""Reads of blocks: a part of a buffer, seen through the program's views."""

from __future__ import annotations

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, DimSpan, TextValue
from tapestry.teg.views import ViewDim, ViewMap


def view_text(
    xp: ArrayText, value: TextValue, held: np.ndarray, view: ViewMap, wanted: np.ndarray
) -> TextValue:
    """Write the part `wanted` `(devices, rank, 2)` of a view of the tensor of which `value` is the box `held`."""
    spans: list[DimSpan] = []
    kept: list[tuple[int, int]] = []
    flipped: list[int] = []
    sizes = wanted[:, :, 1] - wanted[:, :, 0]
    for k, d in enumerate(view.dims):
        start = held[:, k, 0]
        if d.dim < 0:
            spans.append((d.offset - start, None, 1))
            continue
        spans.append(_span(d, start, wanted[:, d.dim]))
        if d.stride < 0 and xp.same(sizes[:, d.dim]) != 1:
            flipped.append(len(kept))
        kept.append((d.dim, len(kept)))
    shape = sizes[:, [dim for dim, _ in kept]]
    part = xp.flip(xp.part(value, spans, shape), flipped)
    part = xp.permute_dims(part, [position for _, position in sorted(kept)])
    along = {dim for dim, _ in kept}
    first = min(along, default=len(view.shape))
    between = [k - first for k in range(len(view.shape)) if k not in along and k > first]
    return xp.expand(xp.expand_dims(part, between), sizes)


def _span(d: ViewDim, start: np.ndarray, wanted: np.ndarray) -> DimSpan:
    """Return the part of one dimension of a buffer that begins at `start`."""
    first = d.stride * wanted[:, 0] + d.offset - start
    last = d.stride * (wanted[:, 1] - 1) + d.offset - start
    low, stop = np.minimum(first, last), np.maximum(first, last) + 1
    nothing = wanted[:, 1] <= wanted[:, 0]
    return np.where(nothing, 0, low), np.where(nothing, 0, stop), abs(d.stride)
