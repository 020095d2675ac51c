"""The interface of all physical layouts, whatever the notation: the offset of an element and the cost of the storage.

A `Layout` is a notation bound to a tensor's logical shape and element. Its storage is `buffer_count` buffers (the
shards of cores; one for an unsharded tensor) of `buffer_elements` slots each, padding included. An *offset* counts
slots through all buffers laid end to end, so `offset // buffer_elements` is the buffer and the rest the slot in it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from operator import index
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Buffers = NDArray[Any]


class LayoutError(ValueError):
    """Error raised for a text outside its notation, or an impossible combination; says where and what was expected."""


@dataclass(frozen=True)
class Layout(ABC):
    """A tensor's logical shape in a physical layout; subclasses add the fields of their notation.

    `element_bits` is the size of one stored element in bits (4 for int4 packed two to a byte).
    """

    notation: ClassVar[str]

    shape: tuple[int, ...]
    element_bits: int

    @property
    @abstractmethod
    def physical_shape(self) -> tuple[int, ...]:
        """The padded extents of the storage, most major first; their product is `buffer_count * buffer_elements`."""

    @property
    @abstractmethod
    def buffer_count(self) -> int:
        """The number of buffers (one per core or bank that holds a shard); 1 for an unsharded tensor."""

    @property
    @abstractmethod
    def buffer_elements(self) -> int:
        """The number of slots of one buffer, padding included."""

    @abstractmethod
    def _offsets(self, coords: Indices) -> Indices:
        """Compute the offsets (n,) of the elements at `coords` (n, rank), known to be inside `shape`."""

    @abstractmethod
    def _coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Compute the coordinates (n, rank) at `offsets` (n,), known to be inside the storage, and a mask (n,)."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the text of the notation; `parse` of it gives an equal layout."""

    @property
    def element_count(self) -> int:
        """The number of elements of the logical shape."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The number of bytes of all buffers, padding included; every buffer ends on a whole byte."""
        return self.buffer_count * -(-self.buffer_elements * self.element_bits // 8)

    @property
    def padding_bytes(self) -> int:
        """The number of bytes of the storage that hold no element."""
        return self.size_bytes - -(-self.element_count * self.element_bits // 8)

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The extents of the padded index space in which the storage is drawn; by default the storage itself."""
        return self.physical_shape

    def picture_offsets(self, places: Indices) -> Indices:
        """Compute the offsets (n,) of the slots at `places` (n, k) inside `picture_shape`, padding included."""
        if not self.picture_shape:
            return np.zeros(len(places), dtype=np.int64)
        return np.asarray(np.ravel_multi_index(tuple(places.T), self.picture_shape), dtype=np.int64)

    def buffer_name(self, buffer: int) -> str:
        """Return the readable name of a buffer: by default its number."""
        return f"buffer {buffer}"

    def offsets(self, coords: Indices) -> Indices:
        """Compute the offsets (n,) of elements at `coords` (n, rank).

        Raises `LayoutError` unless all coordinates are integers inside `shape`.
        """
        given = _integers(coords, "coordinates")
        if given.ndim != 2 or given.shape[1] != len(self.shape):
            raise LayoutError(f"expected coordinates (n, {len(self.shape)}), not {given.shape}")
        for dim, extent in enumerate(self.shape):
            row = _outside(given[:, dim], extent)
            if row is not None:
                raise LayoutError(
                    f"coordinates {given[row].tolist()} in row {row} are not inside the shape {list(self.shape)}"
                )
        return self._offsets(given.astype(np.int64, copy=False))

    def coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Compute coordinates (n, rank) of the elements at `offsets` (n,), and a mask (n,) that is False on padding.

        Raises `LayoutError` unless all offsets are integers inside the storage.
        """
        given, end = _integers(offsets, "offsets"), self.buffer_count * self.buffer_elements
        if given.ndim != 1:
            raise LayoutError(f"expected offsets (n,), not {given.shape}")
        row = _outside(given, end)
        if row is not None:
            raise LayoutError(f"offset {given[row]} in row {row} is not inside the storage of {end} elements")
        return self._coordinates(given.astype(np.int64, copy=False))

    def offset_of(self, coords: Sequence[int]) -> int:
        """Compute the offset of one element; raise `LayoutError` unless `coords` are integers inside the shape."""
        at = self._inside(coords)
        return int(self._offsets(np.array([at], dtype=np.int64).reshape(1, len(self.shape)))[0])

    def element_text(self, coords: Sequence[int]) -> str | None:
        """Return the element that the layout computes at `coords`, as text; None where elements are stored."""
        self._inside(coords)
        return None

    def coords_of(self, offset: int) -> tuple[int, ...] | None:
        """Compute the coordinates of the element at an offset, or None where there is padding."""
        place, end = _integer(offset, "an offset"), self.buffer_count * self.buffer_elements
        if not 0 <= place < end:
            raise LayoutError(f"offset {place} is not inside the storage of {end} elements")
        coords, real = self._coordinates(np.array([place], dtype=np.int64))
        return tuple(coords[0].tolist()) if real[0] else None

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """Pack `array` (shape) into buffers (buffer_count, buffer_elements), with `fill` in their padding."""
        self._expect(array, self.shape, "array")
        buffers = np.full(self.buffer_count * self.buffer_elements, fill, dtype=array.dtype)
        buffers[self._offsets(every_coordinate(self.shape))] = array.reshape(-1)
        return buffers.reshape(self.buffer_count, self.buffer_elements)

    def unpack(self, buffers: Buffers) -> Buffers:
        """Unpack the array (shape) that `buffers` (buffer_count, buffer_elements) hold: the inverse of `pack`."""
        self._expect(buffers, (self.buffer_count, self.buffer_elements), "buffers")
        found: Buffers = buffers.reshape(-1)[self._offsets(every_coordinate(self.shape))]
        return found.reshape(self.shape)

    def _inside(self, coords: Sequence[int]) -> tuple[int, ...]:
        """Return coordinates as integers; raise `LayoutError` unless they are inside the shape."""
        at = [_integer(c, "coordinates") for c in coords]
        if len(at) != len(self.shape) or any(not 0 <= c < n for c, n in zip(at, self.shape, strict=True)):
            raise LayoutError(f"coordinates {at} are not inside the shape {list(self.shape)}")
        return tuple(at)

    @staticmethod
    def _expect(array: Buffers, shape: tuple[int, ...], what: str) -> None:
        if array.shape != shape:
            raise LayoutError(f"expected {what} of shape {list(shape)}, not {list(array.shape)}")


def _integer(value: object, what: str) -> int:
    try:
        return index(value)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(f"expected integers as {what}, not {value!r}") from None


def _integers(values: object, what: str) -> Buffers:
    given = np.asarray(values)
    if given.dtype.kind not in "iu" and given.size:
        raise LayoutError(f"expected integers as {what}, not {given.dtype}")
    return given


def _outside(values: Buffers, end: int) -> int | None:
    """Find the first row (n,) with a value outside 0 to `end` - 1; None if all are inside."""
    if not values.size or (int(values.min()) >= 0 and int(values.max()) < end):
        return None
    return int(np.flatnonzero((values < 0) | (values >= end))[0])


def every_coordinate(shape: Sequence[int]) -> Indices:
    """Return all coordinates (n, rank) of a shape, last dimension fastest."""
    axes = np.indices(tuple(shape), dtype=np.int64)
    return axes.reshape(len(shape), -1).T if len(shape) else np.zeros((1, 0), dtype=np.int64)
