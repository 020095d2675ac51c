"""Ranks on the mesh, and the parts of tensors that they hold.

Where a program has stages, all of this is about the ranks of one of them: `FIRST` is the number that the first of them
has among all. A program of one stage gets the source without what is about several (`RuntimeSource.of_one_stage`).
"""

from __future__ import annotations

import os
from functools import cache
from typing import Any

import numpy as np

MESH: dict[str, int] = {}
STAGES = 1
COUNT = int(np.prod([*MESH.values()]))
WORLD = STAGES * COUNT
STAGE = int(os.environ.get("RANK", "0")) // COUNT
FIRST = STAGE * COUNT
RANK = int(os.environ.get("RANK", "0")) % COUNT
Dims = tuple[Any, ...]


def sub_axes(*axes: str) -> list[str]:
    """Return the sub-axes of axes: `gpu` stands for `gpu.0`, `gpu.1` and so on."""
    return [n for axis in axes for n in MESH if f"{n}.".startswith(f"{axis}.")]


def position(*axes: str) -> np.ndarray:
    """Return every rank's position along axes, the first one most significant."""
    at = np.indices(tuple(MESH.values())).reshape(-1, COUNT)
    found = np.zeros(COUNT, int)
    for name in sub_axes(*axes):
        found = found * MESH[name] + at[list(MESH).index(name)]
    return found


def split(size: int, *axes: str, granule: int = 1) -> Dims:
    """Return every rank's part of a dimension; the last may be smaller, or empty."""
    bounds = position(*axes)[:, None] + (0, 1)
    chunk = -(-size // (granule * bounds.max())) * granule
    return tuple(map(tuple, np.minimum(bounds * chunk, size).tolist()))


def window(
    parts: Dims, stride: int, offset: int, extent: int, low: int, high: int
) -> Dims:
    """Return what windows over the parts of an index read: its neighbors' rims too."""
    found = []
    for a, b in parts:
        first, last = sorted((a * stride, (b - 1) * stride))
        ends = (first + offset, last + offset + extent if a < b else low)
        start, stop = (min(max(end, low), high) for end in ends)
        found.append((start, max(start, stop)))
    return tuple(found)


@cache
def boxes(dims: Dims) -> np.ndarray:
    """Return every rank's part `(ranks, dims, 2)`; an integer is a whole dimension."""
    parts = [((0, part),) if isinstance(part, int) else part for part in dims]
    spans = [np.broadcast_to(np.array(part), (COUNT, 2)) for part in parts]
    return np.reshape(spans, (-1, COUNT, 2)).swapaxes(0, 1).astype(int)


def lengths(box: np.ndarray) -> Any:
    """Return the sizes of a box, or of each of several."""
    return np.diff(box)[..., 0].tolist()


def sizes(dims: Dims) -> tuple[int, ...]:
    """Return the shape of a whole tensor."""
    return tuple(boxes(dims)[:, :, 1].max(axis=0).tolist())


def inside(box: np.ndarray, start: Any = 0) -> tuple[slice, ...]:
    """Return where a box lies in an array that begins at `start`."""
    return tuple(slice(a, b) for a, b in (box.T - start).T.tolist())
