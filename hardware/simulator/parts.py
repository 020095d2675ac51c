"""Parts of arrays: boxes of boxes, slices of flattened boxes, and tests of whether two arrays are the same memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from tapestry.teg.arrays import Array, arrays_of

MemoryKey: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...], str]


def memory_key(array: Array) -> MemoryKey:
    """Return a key that is equal for arrays of the same memory read in the same way, as long as both are alive."""
    if not isinstance(array, np.ndarray):
        return array.data_ptr(), tuple(array.shape), tuple(array.stride()), str(array.dtype)
    address = array.__array_interface__["data"][0] if array.size else 0
    return address, array.shape, array.strides, array.dtype.str


T = TypeVar("T")


class Memo(Generic[T]):
    """A cache of results by the memory of the immutable arrays they are computed from, which it keeps alive."""

    def __init__(self) -> None:
        self.known: dict[Hashable, tuple[Sequence[Array], T]] = {}

    def get(self, arrays: Sequence[Array], make: Callable[[], T], also: Hashable = None) -> T:
        """Return the result of the first `make()` for these arrays and for `also`, any further inputs of the result."""
        key = (also, *map(memory_key, arrays))
        if key not in self.known:
            self.known[key] = (arrays, make())
        return self.known[key][1]


def frozen(array: Array) -> Array:
    """Make the array immutable and return it: buffers are shared by devices that hold the same values.

    torch's arrays cannot be made so; nothing here writes into a buffer.
    """
    if isinstance(array, np.ndarray):
        array.setflags(write=False)
    return array


def emptied(array: Array, shape: Sequence[int]) -> Array:
    """Return the array without elements, of a shape that has none."""
    return array.reshape(-1)[:0].reshape(tuple(shape))


def box_part(array: Array, start: Sequence[int], box: np.ndarray) -> Array:
    """View the part `box` `(rank, 2)` of the box that `array` holds from `start` on."""
    shape = tuple(int(n) for n in np.maximum(box[:, 1] - box[:, 0], 0))
    if 0 in shape:
        return emptied(array, shape)
    # With an ellipsis, a part of rank 0 is an array and no scalar.
    return array[..., *(slice(a - s, b - s) for (a, b), s in zip(box.tolist(), start, strict=True))]


def set_part(array: Array, held: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> Array:
    """Return the elements at the product of `wanted` coordinates, from an array over the product of `held` ones."""
    if any(len(w) == 0 for w in wanted):
        return emptied(array, [len(w) for w in wanted])
    places = [np.searchsorted(h, w) for h, w in zip(held, wanted, strict=True)]
    if all(p[-1] - p[0] + 1 == len(p) for p in places):
        return array[tuple(slice(int(p[0]), int(p[-1]) + 1) for p in places)]
    return array[np.ix_(*places)]


def flat_parts(shape: Sequence[int], start: int, end: int) -> Iterator[tuple[slice, ...]]:
    """Yield the boxes that make up elements `[start, end)` of a row-major array of `shape`, in order."""
    if start >= end:
        return
    if not shape:
        yield ()
        return
    inner = int(np.prod(shape[1:], dtype=np.int64))
    first, last = -(-start // inner), end // inner
    if first > last:
        row = start // inner
        for rest in flat_parts(shape[1:], start - row * inner, end - row * inner):
            yield (slice(row, row + 1), *rest)
        return
    for rest in flat_parts(shape[1:], inner - (first * inner - start), inner):
        if start < first * inner:
            yield (slice(first - 1, first), *rest)
    if first < last:
        yield (slice(first, last), *(slice(0, n) for n in shape[1:]))
    for rest in flat_parts(shape[1:], 0, end - last * inner):
        yield (slice(last, last + 1), *rest)


def same_bits(a: Array, b: Array) -> bool:
    """Return whether two arrays of one library are equal bit by bit, NaNs included."""
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    if memory_key(a) == memory_key(b) or math.prod(a.shape) == 0:
        return True
    held = (arrays_of(x).to_numpy(x) for x in (a, b))
    first, second = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in held)
    return bool(np.array_equal(first, second))
