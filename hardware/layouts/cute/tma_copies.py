"""The sequence of TMA copies that tiles a tensor, and the elements each moves between global and shared memory.

Source: NVIDIA CUDA programming guide, "Tensor Memory Access": elements of a box outside the tensor are filled on a load
and left out on a store; a load counts the whole box toward its barrier.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.cute.layout import CuteLayout, bound
from tapestry.hardware.layouts.cute.tma import TmaDescriptor
from tapestry.hardware.layouts.layout import Buffers, Indices, LayoutError

MOST_COPIES = 1 << 22


@dataclass(frozen=True)
class TmaCopy:
    """One copy instruction: the start of its box (possibly outside), and its number of elements inside the tensor.

    `coordinate` and `inside` innermost first, `inside` in loaded elements; `global_bytes` move to or from global
    memory, `shared_bytes` are filled in shared memory and counted by the barrier.
    """

    coordinate: tuple[int, ...]
    inside: tuple[int, ...]
    global_bytes: int
    shared_bytes: int


def copy_at(descriptor: TmaDescriptor, coordinate: tuple[int, ...]) -> TmaCopy:
    """Build the copy whose box starts at a coordinate, which may be negative or beyond the tensor."""
    if len(coordinate) != descriptor.rank:
        raise LayoutError(f"expected {descriptor.rank} coordinates, not {list(coordinate)}")
    inside = tuple(
        int(np.count_nonzero(_within(descriptor, axis, start))) for axis, start in enumerate(coordinate)
    )
    moved = prod(inside) * descriptor.element.size_bytes
    return TmaCopy(coordinate, inside, moved, descriptor.box_bytes)


def copies(descriptor: TmaDescriptor) -> Iterator[TmaCopy]:
    """Yield the copies whose boxes cover the tensor, innermost dimension first; the last ones may reach beyond it.

    Raises `LayoutError` for more than 2^22 copies.
    """
    counts = [-(-size // extent) for size, extent in zip(descriptor.sizes, descriptor.box, strict=True)]
    if prod(counts) > MOST_COPIES:
        raise LayoutError(
            f"expected at most {MOST_COPIES} copies, not {prod(counts)} of the box {descriptor.box}"
        )
    for place in product(*map(range, reversed(counts))):
        starts = (k * extent for k, extent in zip(reversed(place), descriptor.box, strict=True))
        yield copy_at(descriptor, tuple(starts))


def _steps(descriptor: TmaDescriptor, axis: int) -> Indices:
    step = 1 if axis == 0 and descriptor.interleave == "none" else descriptor.element_strides[axis]
    return np.arange(descriptor.loaded[axis], dtype=np.int64) * step


def _within(descriptor: TmaDescriptor, axis: int, start: int) -> NDArray[np.bool_]:
    places = _steps(descriptor, axis) + start
    return (places >= 0) & (places < descriptor.sizes[axis])


def _places(descriptor: TmaDescriptor, coordinate: tuple[int, ...]) -> tuple[Indices, NDArray[np.bool_]]:
    """Compute offsets into global memory of a box's elements (outermost axis first), and which are in the tensor."""
    size = descriptor.element.size_bytes
    strides = (1, *(stride // size for stride in descriptor.strides_bytes))
    offsets: Any = np.zeros((), dtype=np.int64)
    inside: Any = np.ones((), dtype=np.bool_)
    for axis in range(descriptor.rank):
        steps = (_steps(descriptor, axis) + coordinate[axis]) * strides[axis]
        offsets = np.add.outer(steps, offsets)
        inside = np.logical_and.outer(_within(descriptor, axis, coordinate[axis]), inside)
    return offsets, inside


def load(descriptor: TmaDescriptor, memory: Buffers, coordinate: tuple[int, ...]) -> Buffers:
    """Return shared memory (elements) after a load of the box at a coordinate of `memory` (elements from the base)."""
    offsets, inside = _places(descriptor, coordinate)
    filling = np.nan if descriptor.fill == "nan" else 0
    box = np.full(offsets.shape, filling, dtype=memory.dtype)
    box[inside] = memory[offsets[inside]]
    packed: Buffers = _shared(descriptor).pack(box.T)[0]
    return packed


def store(descriptor: TmaDescriptor, shared: Buffers, memory: Buffers, coordinate: tuple[int, ...]) -> None:
    """Write a box of shared memory to `memory` in place, except the elements outside the tensor."""
    offsets, inside = _places(descriptor, coordinate)
    box = _shared(descriptor).unpack(shared.reshape(1, -1)).T
    memory[offsets[inside]] = box[inside]


def _shared(descriptor: TmaDescriptor) -> CuteLayout:
    return bound(descriptor.shared_layout, descriptor.element.size_bytes * 8, "smem")
