"""A CuTe layout in memory: `ptr[16b] o (4,(2,3)):(2,(1,8))`, elements of 16 bits behind one pointer.

Each top mode is a dimension of the tensor, counted colexicographically where it is itself a tuple. The buffer reaches
from the pointer to the largest offset; with a swizzle, to the end of the swizzle's last period. Elements that share a
slot (stride 0) may be packed if they agree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tapestry.hardware.layouts.cute.algebra import coalesce
from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term
from tapestry.hardware.layouts.cute.composed import Composed, Swizzle
from tapestry.hardware.layouts.cute.integers import Static, number
from tapestry.hardware.layouts.cute.reference import static
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.text import LARGEST_INTEGER
from tapestry.hardware.layouts.cute.tuples import integer, leaves, product, wrapped
from tapestry.hardware.layouts.layout import Buffers, Indices, Layout, LayoutError, Mask, every_coordinate

LARGEST_TABLE = 1 << 26
MOST_AXES = 32


@dataclass(frozen=True)
class CuteLayout(Layout):
    """A layout of integer strides over elements of `element_bits` bits.

    `shape` holds the sizes of the top modes; `space` is "", "gmem", "smem" or "rmem". `LayoutError` is raised for basis
    strides, negative strides, extents below 1, and codomains beyond 2^63 - 1.
    """

    notation: ClassVar[str] = "cute"

    layout: Strided | Composed
    space: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.layout, Composed) and not (
            isinstance(self.layout.outer, Swizzle) and isinstance(self.layout.inner, Strided)
        ):
            raise LayoutError(f"expected one swizzle after shape:stride in memory, not {self.layout}")
        for extent, step in zip(leaves(self.inner.shape), leaves(self.inner.stride), strict=True):
            if not isinstance(step, int | Static):
                kind = "basis element" if isinstance(step, ScaledBasis) else "tuple"
                raise LayoutError(
                    f"expected integer strides in memory, not the {kind} {step} in {self.inner}"
                )
            if number(integer(extent)) < 1 or number(step) < 0:
                raise LayoutError(f"expected extents of 1 or more and strides of 0 or more, not {self.inner}")
        if self.start < 0:
            raise LayoutError(f"expected an offset of 0 or more, not {self.start}")
        if max(number(self.inner.size), number(self.inner.cosize) + self.start) > LARGEST_INTEGER:
            raise LayoutError(f"expected offsets below 2^63, not {self.inner}")

    @property
    def inner(self) -> Strided:
        """The layout before a swizzle."""
        return self.layout.domain if isinstance(self.layout, Composed) else self.layout

    @property
    def _swizzle(self) -> Swizzle | None:
        outer = self.layout.outer if isinstance(self.layout, Composed) else None
        return outer if isinstance(outer, Swizzle) else None

    @property
    def start(self) -> int:
        """The offset added before a swizzle."""
        return number(self.layout.offset) if isinstance(self.layout, Composed) else 0

    @property
    def physical_shape(self) -> tuple[int, ...]:
        """The shape of the buffer, one row."""
        return (self.buffer_elements,)

    @property
    def buffer_count(self) -> int:
        """The number of buffers: one pointer, one buffer."""
        return 1

    @cached_property
    def buffer_elements(self) -> int:
        """The number of slots up to the largest offset, a swizzle's last period filled up."""
        end = self.start + number(self.inner.cosize)
        period = self._swizzle.size if self._swizzle else 1
        return -(-end // period) * period

    @property
    def picture_shape(self) -> tuple[int, ...]:
        """The shape of the elements alone, as CuTe prints its layouts: slots between them have no coordinates."""
        return self.shape

    def picture_offsets(self, places: Indices) -> Indices:
        """Return the offsets (n,) of the elements at places (n, rank)."""
        return self._offsets(places)

    @cached_property
    def _leaves(self) -> tuple[tuple[tuple[int, int, int], ...], ...]:
        """The (extent, stride, coordinate step) of every leaf after coalescing, by dimension, first leaf fastest."""
        found = []
        for mode in self.inner.modes:
            step, parts = 1, []
            simple = coalesce(Strided(static(mode.shape), static(mode.stride)))
            for extent, stride in zip(leaves(simple.shape), leaves(simple.stride), strict=True):
                parts.append((number(integer(extent)), number(integer(stride)), step))
                step *= parts[-1][0]
            found.append(tuple(parts))
        return tuple(found)

    def _offsets(self, coords: Indices) -> Indices:
        """Compute the offsets (n,) of coordinates (n, rank)."""
        found = np.full(len(coords), self.start, dtype=np.int64)
        for dimension, parts in enumerate(self._leaves):
            rest = coords[:, dimension]
            for extent, stride, _ in parts[:-1]:
                rest, inside = np.divmod(rest, extent)
                found += inside * stride
            if parts:
                found += rest * parts[-1][1]
        return self._swizzled(found)

    def _swizzled(self, offsets: Indices) -> Indices:
        """Apply the swizzle, which is its own inverse, to offsets."""
        swizzle = self._swizzle
        if swizzle is None:
            return offsets
        taken = offsets & swizzle.sources
        return offsets ^ (taken >> swizzle.shift if swizzle.shift >= 0 else taken << -swizzle.shift)

    @cached_property
    def _nested(self) -> bool:
        """True if every stride reaches beyond all that smaller strides can: offsets then split by division."""
        return _reaches_beyond((d, s) for parts in self._leaves for s, d, _ in parts if s > 1)

    @property
    def padding_bytes(self) -> int:
        """The bytes of slots without an element; elements that share a slot (stride 0) count once."""
        moving = [(d, s) for parts in self._leaves for s, d, _ in parts if s > 1 and d > 0]
        apart = _reaches_beyond(moving)
        occupied = prod(s for _, s in moving) if apart else int(np.count_nonzero(self._table >= 0))
        return self.size_bytes - -(-occupied * self.element_bits // 8)

    def _coordinates(self, offsets: Indices) -> tuple[Indices, Mask]:
        """Compute coordinates (n, rank) at offsets (n,) and which of them are real; of aliases the first in C order."""
        if not self._nested:
            return self._looked_up(offsets)
        rest = self._swizzled(offsets) - self.start
        found = np.zeros((len(offsets), len(self.shape)), dtype=np.int64)
        real = rest >= 0
        steps = [(d, s, step, k) for k, parts in enumerate(self._leaves) for s, d, step in parts if s > 1]
        for stride, extent, step, dimension in sorted(steps, reverse=True):
            inside = np.clip(rest // stride, 0, extent - 1)
            rest = rest - inside * stride
            found[:, dimension] += inside * step
        return found, real & (rest == 0)

    def _looked_up(self, offsets: Indices) -> tuple[Indices, Mask]:
        found = self._table[offsets]
        coords = np.stack(np.unravel_index(np.maximum(found, 0), self.shape), axis=1).astype(np.int64)
        return coords, found >= 0

    @cached_property
    def _table(self) -> Indices:
        """The C-order index of the first element in each slot, -1 for padding."""
        if max(self.buffer_elements, self.element_count) > LARGEST_TABLE:
            raise LayoutError(f"expected at most {LARGEST_TABLE} slots to invert strides that interleave")
        table = np.full(self.buffer_elements, -1, dtype=np.int64)
        table[self._offsets(every_coordinate(self.shape))[::-1]] = np.arange(self.element_count)[::-1]
        return table

    def pack(self, array: Buffers, fill: float = 0) -> Buffers:
        """Pack an array to the buffer (1, buffer_elements); raise `LayoutError` if elements sharing a slot differ."""
        if len(self._axes) > MOST_AXES:
            return super().pack(array, fill)
        self._expect(array, self.shape, "array")
        buffer = np.full(self.buffer_elements, fill, dtype=array.dtype)
        self._view(buffer)[...] = array.reshape(self._axes)
        if not self._nested and not np.array_equal(self._view(buffer).reshape(self.shape), array):
            raise LayoutError(f"Non-injective Layout: elements that share a slot of {self.layout} differ")
        return self._permuted(buffer).reshape(1, -1)

    def unpack(self, buffers: Buffers) -> Buffers:
        """Unpack the array (shape) from a buffer (1, buffer_elements)."""
        if len(self._axes) > MOST_AXES:
            return super().unpack(buffers)
        self._expect(buffers, (1, self.buffer_elements), "buffers")
        found: Buffers = self._view(self._permuted(np.ascontiguousarray(buffers[0]))).reshape(self.shape)
        return found.copy() if np.shares_memory(found, buffers) else found

    def _permuted(self, buffer: Buffers) -> Buffers:
        if self._swizzle is None:
            return buffer
        permuted: Buffers = buffer[self._swizzled(np.arange(len(buffer), dtype=np.int64))]
        return permuted

    @property
    def _axes(self) -> tuple[int, ...]:
        """The extents of all leaves, slowest first within each dimension."""
        return tuple(s for parts in self._leaves for s, _, _ in reversed(parts))

    def _view(self, buffer: Buffers) -> Buffers:
        """View the elements in a buffer as an array with an axis for each leaf."""
        steps = tuple(d * buffer.itemsize for parts in self._leaves for _, d, _ in reversed(parts))
        return as_strided(buffer[self.start :], self._axes, steps)

    def __str__(self) -> str:
        return f"{self.space + '_' if self.space else ''}ptr[{self.element_bits}b] o {self.layout}"


def _reaches_beyond(leaves: Iterable[tuple[int, int]]) -> bool:
    """Return whether each (stride, extent) steps over all that those with smaller strides reach."""
    reach = 0
    for stride, extent in sorted(leaves):
        if stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


def bound(layout: Strided | Composed, element_bits: int, space: str = "") -> CuteLayout:
    """Build a layout over elements of `element_bits` bits."""
    return CuteLayout(sizes(layout.shape), element_bits, layout, space)


def sizes(shape: Term) -> tuple[int, ...]:
    """Return the sizes of a shape's top modes."""
    return tuple(number(product(mode)) for mode in wrapped(shape))
