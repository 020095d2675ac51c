"""Sharding specs of tensors: how each dimension is split over sub-axes, and over which a tensor is partial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape


class Split(NamedTuple):
    """One dimension split over `axes` (first most significant) in chunks that respect a granule."""

    axes: tuple[str, ...] = ()
    granule: int = 1


WHOLE = Split()


class ChunkWindow(NamedTuple):
    """The range needed of a tensor dimension when `count` index points are split.

    Index chunk `[a, b)` needs `[stride a + offset, stride (b - 1) + offset + extent)`, clipped to
    `[low, high)`; boxes of neighbors may overlap.
    """

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody calls on a window
    stride: int
    offset: int
    extent: int
    low: int
    high: int


@dataclass(frozen=True)
class Spec:
    """A `Split` for each dimension; `partial` sub-axes hold terms that `monoid` combines; other axes replicate.

    Only a consumer spec carries windows (one per dimension, None where the plain chunk is needed), and only that of
    carried state is `exact`: the part is needed as a buffer, and no view of a larger one will do.
    """

    dims: tuple[Split, ...]
    partial: tuple[str, ...] = ()
    monoid: str | None = None
    windows: tuple[ChunkWindow | None, ...] = ()
    exact: bool = False

    @property
    def is_windowed(self) -> bool:
        return any(w is not None for w in self.windows)

    def window(self, dim: int) -> ChunkWindow | None:
        return self.windows[dim] if self.windows else None

    def whole(self) -> Spec:
        """Return the spec after its partial terms are combined."""
        return Spec(self.dims, windows=self.windows) if self.partial else self

    def __str__(self) -> str:
        parts = []
        for k, split in enumerate(self.dims):
            text = "*".join(split.axes) or "-"
            text += f"/{split.granule}" if split.granule != 1 else ""
            window = self.window(k)
            if window is not None:
                text += f"@{window.count}:{window.stride}:{window.offset}:{window.extent}:{window.low}:{window.high}"
            parts.append(text)
        tail = f" {self.monoid}({'*'.join(self.partial)})" if self.partial else ""
        return f"[{', '.join(parts)}]{tail}{' exact' if self.exact else ''}"


def chunk_size(size: int, parts: int, granule: int) -> int:
    """Compute the number of elements of a full chunk: ceil over granules, then over parts."""
    granules = -(-size // granule)
    return -(-granules // parts) * granule


def chunk_bounds(size: int, split: Split, mesh_shape: MeshShape) -> np.ndarray:
    """Compute `[start, end)` of every device's chunk, `(devices, 2)`; trailing chunks may be smaller or empty."""
    if not split.axes:
        return np.tile(np.array([0, size], dtype=np.int64), (mesh_shape.device_count, 1))
    chunk = chunk_size(size, mesh_shape.size_of(split.axes), split.granule)
    start = np.minimum(mesh_shape.linear(split.axes) * chunk, size)
    return np.stack([start, np.minimum(start + chunk, size)], axis=1)


def boxes(spec: Spec, shape: Sequence[int], mesh_shape: MeshShape) -> np.ndarray:
    """Compute the box of the tensor that each device holds (or needs), `(devices, rank, 2)`."""
    result = np.zeros((mesh_shape.device_count, len(shape), 2), dtype=np.int64)
    for k, size in enumerate(shape):
        window = spec.window(k)
        if window is None:
            result[:, k] = chunk_bounds(size, spec.dims[k], mesh_shape)
        else:
            result[:, k] = window_bounds(window, chunk_bounds(window.count, spec.dims[k], mesh_shape))
    return result


def window_bounds(window: ChunkWindow, chunks: np.ndarray) -> np.ndarray:
    """Compute the tensor range each index chunk needs; empty chunks need nothing. `(devices, 2)`."""
    first, last = chunks[:, 0] * window.stride, (chunks[:, 1] - 1) * window.stride
    start = np.clip(np.minimum(first, last) + window.offset, window.low, window.high)
    end = np.clip(np.maximum(first, last) + window.offset + window.extent, window.low, window.high)
    empty = (chunks[:, 1] <= chunks[:, 0]) | (end <= start)
    return np.stack([start, np.where(empty, start, end)], axis=1)


def volumes(box: np.ndarray) -> np.ndarray:
    """Count the elements of each box of `(..., rank, 2)`; rank 0 boxes have one."""
    elements = np.ones(box.shape[:-2], dtype=np.int64)
    for k in range(box.shape[-2]):  # faster than a product along a short axis
        elements *= box[..., k, 1] - box[..., k, 0]
    found: np.ndarray = elements[()]  # a number for one box
    return found


def contains(outer: np.ndarray, inner: np.ndarray) -> np.ndarray:
    """Return whether each inner box is inside its outer box; empty boxes always are. Shapes `(..., rank, 2)`."""
    inside = np.all((outer[..., 0] <= inner[..., 0]) & (inner[..., 1] <= outer[..., 1]), axis=-1)
    found: np.ndarray = inside | (volumes(inner) == 0)
    return found
