"""Tensors whose elements are computed: counting iterators, coordinates by basis strides, tilers by mode.

CuTe prints them as it prints tensors in memory, but they occupy none. Source: NVIDIA/cutlass
media/docs/cpp/cute/0z_tma_tensors.md and include/cute/layout.hpp (make_tile).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tapestry.hardware.layouts.cute.basis import Term, term
from tapestry.hardware.layouts.cute.composed import Composed
from tapestry.hardware.layouts.cute.layout import sizes
from tapestry.hardware.layouts.cute.strided import Strided, columnwise
from tapestry.hardware.layouts.cute.tensor import ImplicitTensor
from tapestry.hardware.layouts.cute.text import LARGEST_INTEGER
from tapestry.hardware.layouts.cute.tuples import shown
from tapestry.hardware.layouts.layout import Buffers, Indices, Layout, LayoutError, Mask

Tiler = tuple[Strided, ...]
"""A layout for each mode of a tensor, as `make_tile` returns them."""


@dataclass(frozen=True)
class ImplicitLayout(Layout):
    """A layout without storage: `element_text` describes the element that it computes; it has no buffers or offsets.

    `value` is an implicit tensor, a layout of basis strides (a map to coordinates), or a tiler: a layout for each mode,
    which maps coordinates in the tile to coordinates in the tensor.
    """

    notation: ClassVar[str] = "cute"

    value: ImplicitTensor | Strided | Composed | Tiler

    @staticmethod
    def of(value: ImplicitTensor | Strided | Composed | Tiler) -> "ImplicitLayout":
        """Build the layout of a tensor, a layout of basis strides or a tiler."""
        if isinstance(value, tuple):
            return ImplicitLayout(sizes(tuple(mode.shape for mode in value)), 0, value)
        return ImplicitLayout(sizes(value.shape), 0, value)

    def __post_init__(self) -> None:
        """Raise `LayoutError` for extents below 1 and more than 2^63 - 1 elements."""
        if any(size < 1 for size in self.shape) or self.element_count > LARGEST_INTEGER:
            raise LayoutError(f"expected extents of 1 or more and at most 2^63 - 1 elements, not {self}")

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The extents of the storage, of which there is none."""
        return (0,)

    @property
    def buffer_count(self) -> int:
        """The number of buffers: none."""
        return 0

    @property
    def buffer_elements(self) -> int:
        """The number of slots: none."""
        return 0

    @property
    def padding_bytes(self) -> int:
        """The number of bytes of padding: none."""
        return 0

    def element_text(self, coords: Sequence[int]) -> str:
        """Compute the element at `coords` as CuTe prints it; raise `LayoutError` unless they are inside the shape."""
        at = self._inside(coords)
        if isinstance(self.value, tuple):
            return shown(tuple(mode(place) for mode, place in zip(self.value, at, strict=True)))
        coordinate: Term = at if isinstance(self.value.shape, tuple) else at[0]
        return shown(self.value(coordinate))

    def _offsets(self, coords: Indices) -> Indices:
        raise LayoutError(self._unstored)

    def _coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        return np.zeros((len(offsets), len(self.shape)), dtype=np.int64), np.zeros(len(offsets), dtype=bool)

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """Raise `LayoutError`: there is nothing to pack into."""
        raise LayoutError(self._unstored)

    def unpack(self, buffers: Buffers) -> Buffers:
        """Raise `LayoutError`: there is nothing to unpack."""
        raise LayoutError(self._unstored)

    @cached_property
    def _unstored(self) -> str:
        return (
            f"{self} computes its elements and stores none; ask for the element at coordinates, or write a pointer "
            "before the layout, such as gmem_ptr[16b] o (4,5):(_1,4)"
        )

    def __str__(self) -> str:
        return shown(self.value)


def tiler_of(modes: Sequence[object]) -> Tiler:
    """Build a tiler of layouts and sizes by mode: a size stands for the layout of as many elements, one apart."""
    return tuple(mode if isinstance(mode, Strided) else columnwise(term(mode)) for mode in modes)
