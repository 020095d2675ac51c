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
    count, rank, subs = len(specs), len(shape), len(mesh_shape.sub_axes)
    known: dict[tuple[int, Split, ChunkWindow | None], int] = {}
    none = (None,) * rank
    rows = [
        [
            known.setdefault(key, len(known))
            for key in zip(shape, spec.dims, spec.windows or none, strict=True)
        ]
        for spec in specs
    ]
    numbers = np.array(rows, dtype=np.int64).reshape(count, rank)
    # one row for each split, window and size that occurs
    bounds = np.zeros((len(known), mesh_shape.device_count, 2), dtype=np.int64)
    granules, window = np.ones(len(known), dtype=np.int64), np.zeros(len(known), dtype=np.bool_)
    constant = np.full((len(known), 2), -1, dtype=np.int64)
    splits = np.zeros((len(known), subs), dtype=np.bool_)
    for i, (size, split, seen) in enumerate(known):
        bounds[i] = _bounds(size, split, seen, mesh_shape)
        granules[i], window[i] = split.granule, seen is not None
        splits[i, [mesh_shape.positions[a] for a in split.axes]] = True
        if seen is not None and seen.stride == 0:
            constant[i] = _bounds(size, Split(), seen, mesh_shape)[0]
    places = np.full((count, subs), -1, dtype=np.int64)
    for k in range(rank):
        places[splits[numbers[:, k]]] = k
    for i, spec in enumerate(specs):
        for a in spec.partial:
            places[i, mesh_shape.positions[a]] = -2
    boxes = np.ascontiguousarray(bounds[numbers].transpose(0, 2, 1, 3))
    return LoweredSpecs(places, granules[numbers], boxes, numbers, window[numbers], constant[numbers])


def _bounds(size: int, split: Split, window: ChunkWindow | None, mesh_shape: MeshShape) -> np.ndarray:
    """Compute the range of one dimension on every device, `(devices, 2)`."""
    if window is None:
        return chunk_bounds(size, split, mesh_shape)
    return window_bounds(window, chunk_bounds(window.count, split, mesh_shape))
