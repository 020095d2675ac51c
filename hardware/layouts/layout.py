"""What every physical layout answers, whatever its notation: where an element lies and what the storage costs.

A `Layout` is a notation bound to a tensor's logical shape and element. Its storage is `buffer_count` buffers (the
shards of cores; one for an unsharded tensor) of `buffer_elements` slots each, padding included. An *offset* counts
slots through all buffers laid end to end, so `offset // buffer_elements` is the buffer and the rest the slot in it.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Buffers = NDArray[Any]


class LayoutError(ValueError):
    """A text that is not of its notation, or an impossible combination; says where and what was expected."""


@dataclass(frozen=True)
class Layout(ABC):
    """A tensor's logical shape in a physical layout; subclasses add what their notation says.

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
        """Buffers (one per core or bank that holds a shard); 1 for an unsharded tensor."""

    @property
    @abstractmethod
    def buffer_elements(self) -> int:
        """Slots of one buffer, padding included."""

    @abstractmethod
    def offsets(self, coords: Indices) -> Indices:
        """Offsets (n,) of the elements at `coords` (n, rank), which lie inside `shape`."""

    @abstractmethod
    def coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Coordinates (n, rank) of the elements at `offsets` (n,), and a mask (n,) that is False on padding."""

    @abstractmethod
    def __str__(self) -> str:
        """The text of the notation; `parse` of it gives an equal layout."""

    @property
    def element_count(self) -> int:
        """Elements of the logical shape."""
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """Bytes of all buffers, padding included; every buffer ends on a whole byte."""
        return self.buffer_count * -(-self.buffer_elements * self.element_bits // 8)

    @property
    def padding_bytes(self) -> int:
        """Bytes of the storage that hold no element."""
        return self.size_bytes - -(-self.element_count * self.element_bits // 8)

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The extents of the padded index space in which the storage is drawn; by default the storage itself."""
        return self.physical_shape

    def picture_offsets(self, places: Indices) -> Indices:
        """Offsets (n,) of the slots at `places` (n, k) inside `picture_shape`, padding included."""
        if not self.picture_shape:
            return np.zeros(len(places), dtype=np.int64)
        return np.asarray(np.ravel_multi_index(tuple(places.T), self.picture_shape), dtype=np.int64)

    def buffer_name(self, buffer: int) -> str:
        """What a person calls a buffer: by default its number."""
        return f"buffer {buffer}"

    def offset_of(self, coords: Sequence[int]) -> int:
        """The offset of one element; `LayoutError` if `coords` lie outside the shape."""
        if len(coords) != len(self.shape) or any(
            not 0 <= c < n for c, n in zip(coords, self.shape, strict=True)
        ):
            raise LayoutError(f"coordinates {list(coords)} are not inside the shape {list(self.shape)}")
        return int(self.offsets(np.array([coords], dtype=np.int64).reshape(1, len(self.shape)))[0])

    def coords_of(self, offset: int) -> tuple[int, ...] | None:
        """The coordinates of the element at an offset, or None where there is padding."""
        end = self.buffer_count * self.buffer_elements
        if not 0 <= offset < end:
            raise LayoutError(f"offset {offset} is not inside the storage of {end} elements")
        coords, real = self.coordinates(np.array([offset], dtype=np.int64))
        return tuple(coords[0].tolist()) if real[0] else None

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """The buffers (buffer_count, buffer_elements) that hold `array` (shape), `fill` in their padding."""
        self._expect(array, self.shape, "array")
        buffers = np.full(self.buffer_count * self.buffer_elements, fill, dtype=array.dtype)
        buffers[self.offsets(every_coordinate(self.shape))] = array.reshape(-1)
        return buffers.reshape(self.buffer_count, self.buffer_elements)

    def unpack(self, buffers: Buffers) -> Buffers:
        """The array (shape) that `buffers` (buffer_count, buffer_elements) hold: the inverse of `pack`."""
        self._expect(buffers, (self.buffer_count, self.buffer_elements), "buffers")
        found: Buffers = buffers.reshape(-1)[self.offsets(every_coordinate(self.shape))]
        return found.reshape(self.shape)

    @staticmethod
    def _expect(array: Buffers, shape: tuple[int, ...], what: str) -> None:
        if array.shape != shape:
            raise LayoutError(f"expected {what} of shape {list(shape)}, got {list(array.shape)}")


def every_coordinate(shape: Sequence[int]) -> Indices:
    """All coordinates (n, rank) of a shape, last dimension fastest."""
    axes = np.indices(tuple(shape), dtype=np.int64)
    return axes.reshape(len(shape), -1).T if len(shape) else np.zeros((1, 0), dtype=np.int64)
