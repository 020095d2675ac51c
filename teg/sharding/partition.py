"""Proofs about boxes on many devices: disjoint, covering, projecting exactly. They take arrays and return faults.

Boxes that come from splitting dimensions form a grid: per dimension a few intervals, and every combination
of intervals is one box, on one device or on several replicas. That is decided per dimension and by counting
distinct boxes, so a thousand devices cost a sort, and a gap and an overlap cannot cancel as sizes can.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.zspace import IndexProjection


def lengths(boxes: np.ndarray) -> np.ndarray:
    """Compute the extents of boxes `(..., rank, 2)` as `(..., rank)`, none below 0."""
    result: np.ndarray = np.maximum(boxes[..., 1] - boxes[..., 0], 0)
    return result


def nonempty(boxes: np.ndarray) -> np.ndarray:
    """Return which boxes `(devices, rank, 2)` hold a point, `(devices,)`; rank 0 boxes do."""
    result: np.ndarray = np.all(boxes[..., 1] > boxes[..., 0], axis=-1)
    return result


def is_run(piece: np.ndarray, part: np.ndarray) -> np.ndarray:
    """Return whether pieces of parts are runs of them, `(...)`, given the sizes `(..., rank)` of both, none empty.

    A piece that is cut along a dimension is a run if it is one row of all dimensions before it.
    """
    rows = np.cumprod(piece, axis=-1)[..., :-1]
    return np.asarray(~((piece < part)[..., 1:] & (rows > 1)).any(axis=-1))


def box_ids(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number the distinct non-empty boxes `(devices,)`, -1 for empty ones; return also the boxes `(count, rank, 2)`."""
    ids = np.full(len(boxes), -1, dtype=np.int64)
    some = nonempty(boxes)
    rows = np.ascontiguousarray(boxes[some].reshape(int(some.sum()), 2 * boxes.shape[1]))
    if rows.shape[1] == 0:
        ids[some] = 0
        return ids, boxes[some][:1]
    # One opaque value per row: equality is all that matters, so any order will do.
    keys = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    ids[some] = inverse.reshape(-1)
    return ids, boxes[some][first]


def partition_fault(boxes: np.ndarray, low: Sequence[int], high: Sequence[int]) -> str | None:
    """Find what keeps the distinct non-empty boxes `(devices, rank, 2)` from tiling `[low, high)`; None if they do.

    Equal boxes are replicas. The boxes must form a grid, as those of our expansions do.
    """
    _, distinct = box_ids(boxes)
    if any(b <= a for a, b in zip(low, high, strict=True)):
        return None if len(distinct) == 0 else f"{len(distinct)} boxes for a range without points"
    if len(distinct) == 0:
        return "no device has any of it"
    cells = 1
    for k, (a, b) in enumerate(zip(low, high, strict=True)):
        intervals = sorted({(int(s), int(e)) for s, e in distinct[:, k]})
        cells *= len(intervals)
        if intervals[0][0] != a or intervals[-1][1] != b:
            reached = f"[{intervals[0][0]}, {intervals[-1][1]})"
            return f"dimension {k} reaches {reached} instead of [{a}, {b})"
        for (s, e), (s2, e2) in pairwise(intervals):
            if e != s2:
                kind = "overlap" if s2 < e else "leave a gap"
                return f"dimension {k}: [{s}, {e}) and [{s2}, {e2}) {kind}"
    if cells != len(distinct):
        return f"{len(distinct)} of the {cells} combinations of intervals are there"
    return None


def projected(projection: IndexProjection, index: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    """Compute the boxes that parts `(devices, dims, 2)` of an index space project to, `(devices, rank, 2)`.

    Bounds are taken per coefficient, so that mixed signs bound exactly; they are clipped to the tensor's `shape`;
    empty parts project to empty boxes.
    """
    rank, dims = len(shape), index.shape[1]
    matrix = np.array(projection.start.matrix, dtype=np.int64).reshape(rank, dims)
    at_low = matrix * index[:, None, :, 0]
    at_high = matrix * (index[:, None, :, 1] - 1)
    offset = np.array(projection.start.offset, dtype=np.int64)
    extent = np.array(projection.shape, dtype=np.int64)
    size = np.array(shape, dtype=np.int64)
    low = np.clip(np.minimum(at_low, at_high).sum(axis=2) + offset, 0, size)
    high = np.clip(np.maximum(at_low, at_high).sum(axis=2) + offset + extent, low, size)
    return np.stack([low, np.where(nonempty(index)[:, None], high, low)], axis=2)


def same_boxes(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return where two arrays of boxes `(devices, rank, 2)` agree; all empty boxes are equal. `(devices,)`."""
    equal: np.ndarray = (a == b).all(axis=(1, 2)) | ~(nonempty(a) | nonempty(b))
    return equal


def group_numbers(mesh_shape: MeshShape, sub_axes: Sequence[str]) -> np.ndarray:
    """Return the number of each device's group along `sub_axes`, `(devices,)`: members differ only along them."""
    return mesh_shape.linear(tuple(s.name for s in mesh_shape.sub_axes if s.name not in sub_axes))


def constant_in_groups(values: np.ndarray, groups: np.ndarray) -> bool:
    """Return whether `values` `(devices,)` are equal within each group."""
    representative = np.empty(int(groups.max()) + 1, dtype=values.dtype)
    representative[groups] = values
    return bool((representative[groups] == values).all())


def once_in_groups(ids: np.ndarray, count: int, groups: np.ndarray) -> bool:
    """Return whether each of the numbers `0 .. count - 1` occurs exactly once in every group; -1 counts as none."""
    some = ids >= 0
    seen = np.bincount(groups[some] * count + ids[some], minlength=(int(groups.max()) + 1) * count)
    return bool((seen == 1).all())
