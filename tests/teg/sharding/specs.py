"""Random specs, and the element-by-element counts of the copies between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, ChunkWindow, Spec, Split
from tests.teg.sharding.programs import MESHES


def random_mesh(rng: np.random.Generator) -> MeshShape:
    return MESHES[int(rng.integers(len(MESHES)))]


def random_shape(rng: np.random.Generator) -> tuple[int, ...]:
    return tuple(int(n) for n in rng.integers(1, 10, int(rng.integers(1, 4))))


def random_spec(
    rng: np.random.Generator, rank: int, mesh_shape: MeshShape, partial: bool = False, order: bool = True
) -> Spec:
    """Draw a spec in which every sub-axis splits one dimension, holds terms (`partial`), or replicates."""
    axes: list[list[str]] = [[] for _ in range(rank)]
    terms = []
    names = [s.name for s in mesh_shape.sub_axes]
    if not order:
        rng.shuffle(names)
    for name in names:
        choice = int(rng.integers(rank + (2 if partial else 1)))
        if choice < rank:
            axes[choice].append(name)
        elif choice == rank + 1:
            terms.append(name)
    splits = tuple(Split(tuple(a), int(rng.integers(1, 4))) if a else WHOLE for a in axes)
    return Spec(splits, tuple(terms), "sum" if terms else None)


def random_needed(rng: np.random.Generator, shape: tuple[int, ...], mesh_shape: MeshShape) -> Spec:
    """Draw a spec that may carry windows (halos, strides, constant slices), or be exact as that of carried state."""
    spec = random_spec(rng, len(shape), mesh_shape)
    if rng.random() < 0.5:
        return replace(spec, exact=bool(rng.random() < 0.3))
    windows: list[ChunkWindow | None] = []
    for split, size in zip(spec.dims, shape, strict=True):
        if rng.random() < 0.5:
            windows.append(None)
            continue
        low = int(rng.integers(size))
        high = int(rng.integers(low + 1, size + 1))
        if not split.axes:
            windows.append(
                None if (low, high) == (0, size) else ChunkWindow(1, 0, low, high - low, low, high)
            )
            continue
        stride = int(rng.choice([-1, 1, 2]))
        count, extent = int(rng.integers(1, 12)), int(rng.integers(1, 4))
        offset = int(rng.integers(-2, 3)) + (size if stride < 0 else 0)
        windows.append(ChunkWindow(count, stride, offset, extent, low, high))
    return Spec(spec.dims, windows=tuple(windows) if any(w is not None for w in windows) else ())


def cells(box: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return the flat positions in a tensor of `shape` of the elements of a box `(rank, 2)`, row-major."""
    flat = np.arange(int(np.prod(shape))).reshape(shape)
    return flat[tuple(slice(a, b) for a, b in box)].reshape(-1)
