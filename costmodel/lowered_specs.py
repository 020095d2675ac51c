"""Specs as the arrays that the compiled loops of `costmodel.resharding_loops` read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import ChunkWindow, Spec, Split, chunk_bounds, window_bounds


@dataclass(frozen=True)
class LoweredSpecs:
    """Specs as the arrays that `costmodel.resharding_loops` reads.

    `ranges` `(specs, rank)` numbers equal columns of `boxes`; `constant` `(specs, rank, 2)` are ranges that all
    devices read, or -1.
    """

    places: np.ndarray
    granules: np.ndarray
    boxes: np.ndarray
    ranges: np.ndarray
    window: np.ndarray
    constant: np.ndarray

    @property
    def is_constant(self) -> np.ndarray:
        """True where all devices read the same range through a window, `(specs, rank)`."""
        return np.asarray(self.constant[..., 0] >= 0)

    @property
    def halo(self) -> np.ndarray:
        """True where devices read different ranges through windows, `(specs, rank)`."""
        return np.asarray(self.window & ~self.is_constant)


def lowered(specs: Sequence[Spec], shape: tuple[int, ...], mesh_shape: MeshShape) -> LoweredSpecs:
    """Return specs of tensors of a shape as arrays."""
    count, rank = len(specs), len(shape)
    places = np.full((count, len(mesh_shape.sub_axes)), -1, dtype=np.int64)
    granules = np.ones((count, rank), dtype=np.int64)
    numbers = np.zeros((count, rank), dtype=np.int64)
    window = np.zeros((count, rank), dtype=np.bool_)
    constant = np.full((count, rank, 2), -1, dtype=np.int64)
    known: dict[tuple[int, Split, ChunkWindow | None], int] = {}
    bounds: list[np.ndarray] = []
    for i, spec in enumerate(specs):
        for k, (split, size) in enumerate(zip(spec.dims, shape, strict=True)):
            granules[i, k] = split.granule
            for a in split.axes:
                places[i, mesh_shape.positions[a]] = k
            seen = spec.windows[k] if spec.windows else None
            if seen is not None:
                window[i, k] = True
                if seen.stride == 0:
                    constant[i, k] = _bounds(size, Split(), seen, mesh_shape)[0]
            number = known.setdefault((size, split, seen), len(bounds))
            if number == len(bounds):
                bounds.append(_bounds(size, split, seen, mesh_shape))
            numbers[i, k] = number
        for a in spec.partial:
            places[i, mesh_shape.positions[a]] = -2
    columns = np.array(bounds, dtype=np.int64).reshape(-1, mesh_shape.device_count, 2)
    boxes = np.ascontiguousarray(columns[numbers].transpose(0, 2, 1, 3))
    return LoweredSpecs(places, granules, boxes, numbers, window, constant)


def _bounds(size: int, split: Split, window: ChunkWindow | None, mesh_shape: MeshShape) -> np.ndarray:
    """Compute the range of one dimension on every device, `(devices, 2)`."""
    if window is None:
        return chunk_bounds(size, split, mesh_shape)
    return window_bounds(window, chunk_bounds(window.count, split, mesh_shape))
