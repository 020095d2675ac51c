"""Checks that boxes tile a range, wherever they lie: no two overlap, and together they cover all points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.zspace import ZRange

ROWS = 512


def overlap(boxes: Sequence[ZRange]) -> tuple[ZRange, ZRange] | None:
    """Find two of the boxes that overlap, or None, by a pass along the dimension in which they differ most."""
    if len(boxes) < 2:
        return None
    wide = any(abs(n) >= 2**62 for b in boxes for n in (*b.start, *b.end))
    corners = np.array([(b.start, b.end) for b in boxes], dtype=object if wide else np.int64)
    if corners.shape[2] == 0:
        return boxes[0], boxes[1]
    axis = max(range(corners.shape[2]), key=lambda d: len(set(corners[:, 0, d])))
    order = np.argsort(corners[:, 0, axis], kind="stable")
    starts, ends = corners[order, 0], corners[order, 1]
    for row in range(0, len(boxes), ROWS):
        some = slice(row, row + ROWS)
        last = int(np.searchsorted(starts[:, axis], ends[some, axis].max()))
        low = np.maximum(starts[some, None], starts[None, row:last])
        high = np.minimum(ends[some, None], ends[None, row:last])
        for a, b in np.argwhere((low < high).all(axis=-1)):
            if a < b:
                return boxes[order[row + a]], boxes[order[row + b]]
    return None


def tiling_fault(boxes: Sequence[ZRange], whole: ZRange) -> str | None:
    """Return the reason why the distinct boxes do not tile `whole`; None if they do. Equal boxes are replicas."""
    distinct = list(dict.fromkeys(b for b in boxes if not b.is_empty))
    outside = next((b for b in distinct if not whole.contains(b)), None)
    if outside is not None:
        return f"{outside} lies outside {whole}"
    meeting = overlap(distinct)
    if meeting is not None:
        return f"{meeting[0]} and {meeting[1]} overlap"
    missing = whole.size - sum(b.size for b in distinct)
    return f"{missing} of {whole.size} points are in none of them" if missing else None
