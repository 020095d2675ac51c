"""Swizzles, and their compositions with layouts: `Sw<3,4,3> o _0 o (8,64):(64,1)`.

Source: NVIDIA/cutlass include/cute/swizzle.hpp, swizzle_layout.hpp and layout_composed.hpp.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tapestry.hardware.layouts.cute.basis import Term, plus
from tapestry.hardware.layouts.cute.integers import ZERO, Integer, Static, added, constant, number
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tuples import integer
from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True, slots=True)
class Swizzle:
    """`Swizzle<bits, base, shift>`: bits YYY, `shift` above ZZZ, which starts at `base`, are xored into ZZZ.

    A negative shift reads YYY below ZZZ. Raises `LayoutError` for negative bits or base, |shift| < bits, or more than
    31 bits altogether.
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        if self.base < 0:
            raise LayoutError(f"MBase must be positive, got {self}")
        if self.bits < 0:
            raise LayoutError(f"BBits must be positive, got {self}")
        if abs(self.shift) < self.bits:
            raise LayoutError(f"abs(SShift) must be more than BBits, got {self}")
        if self.bits + self.base + abs(self.shift) > 31:
            raise LayoutError(f"expected a swizzle of 31 bits at most, not {self}")

    @property
    def sources(self) -> int:
        """The mask of YYY."""
        return ((1 << self.bits) - 1) << (self.base + max(0, self.shift))

    @property
    def targets(self) -> int:
        """The mask of ZZZ."""
        return ((1 << self.bits) - 1) << (self.base - min(0, self.shift))

    @property
    def size(self) -> int:
        """The number of offsets after which the pattern repeats."""
        return 1 << (self.bits + self.base + abs(self.shift))

    def of(self, offset: int) -> int:
        """Return the swizzled offset; the function is its own inverse."""
        taken = offset & self.sources
        return offset ^ (taken >> self.shift if self.shift >= 0 else taken << -self.shift)

    def __call__(self, offset: Integer) -> Integer:
        """Return the swizzled offset, static if the offset is."""
        return Static(self.of(offset.value)) if isinstance(offset, Static) else self.of(offset)

    def __str__(self) -> str:
        return f"Sw<{self.bits},{self.base},{self.shift}>"


def swizzle_of(sources: int, targets: int) -> Swizzle:
    """Compute `make_swizzle<Y, Z>`: the swizzle with two masks of equally many neighboring bits."""
    if sources.bit_count() != targets.bit_count():
        raise LayoutError(f"Number of bits in Y and Z don't match: {sources:#b} and {targets:#b}")
    if not sources:
        return Swizzle(0, 0, 0)
    low_source, low_target = (mask & -mask for mask in (sources, targets))
    shift = low_source.bit_length() - low_target.bit_length()
    found = Swizzle(sources.bit_count(), min(low_source, low_target).bit_length() - 1, shift)
    if (found.sources | found.targets) != (sources | targets):
        raise LayoutError(f"expected masks of neighboring bits, not {sources:#b} and {targets:#b}")
    return found


def merged(first: Swizzle, second: Swizzle) -> Swizzle:
    """Compose two swizzles of one shift."""
    if first.shift != second.shift:
        raise LayoutError(f"Can only merge swizzles of the same shift, got {first} and {second}")
    return swizzle_of(first.sources ^ second.sources, first.targets ^ second.targets)


@dataclass(frozen=True, slots=True)
class Composed:
    """The function `outer(offset + inner(c))` over the domain of `inner`."""

    outer: Swizzle | Strided
    offset: Integer
    inner: "Strided | Composed"

    def __call__(self, coordinate: Term) -> Term:
        """Return the image of a coordinate."""
        offset = plus(self.offset, self.inner(coordinate))
        return self.outer(integer(offset)) if isinstance(self.outer, Swizzle) else self.outer(offset)

    def __str__(self) -> str:
        return f"{self.outer} o {self.offset} o {self.inner}"

    @property
    def domain(self) -> Strided:
        """The innermost layout, which takes the coordinates."""
        return self.inner.domain if isinstance(self.inner, Composed) else self.inner

    @property
    def shape(self) -> Term:
        """The shape of the domain."""
        return self.inner.shape

    @property
    def rank(self) -> int:
        """The number of modes at the top."""
        return self.inner.rank

    @property
    def size(self) -> Integer:
        """The number of coordinates of the domain."""
        return self.inner.size

    @property
    def cosize(self) -> Integer:
        """The size of the inner layout's codomain."""
        return self.inner.cosize

    def on_inner(self, change: Callable[[Strided], Strided]) -> "Composed":
        """Change the inner layout and keep the rest: dividing, repeating, coalescing act on the domain."""
        inner = self.inner.on_inner(change) if isinstance(self.inner, Composed) else change(self.inner)
        return Composed(self.outer, self.offset, inner)

    def slice(self, coordinate: object, start: Term = ZERO) -> "Composed":
        """Keep the modes marked `_` and add the rest (`start` elements of the domain's layout) to the offset."""
        if isinstance(self.inner, Composed):
            return Composed(self.outer, self.offset, self.inner.slice(coordinate, start))
        return Composed(self.outer, added(self.offset, integer(start)), self.inner.slice(coordinate))


def swizzled(swizzle: Swizzle, offset: Integer, layout: Strided | Composed) -> Strided | Composed:
    """Compute `composition(swizzle, offset, layout)`; a swizzle of no bits at offset `_0` is left out."""
    if not swizzle.bits and constant(offset, 0) and isinstance(layout, Strided):
        return layout
    return Composed(swizzle, offset, layout)


def upcast_swizzle(swizzle: Swizzle, factor: int) -> Swizzle:
    """Return the swizzle of elements `factor` times as large (a power of two)."""
    base = swizzle.base - _log2(factor)
    return Swizzle(max(swizzle.bits + min(base, 0), 0), max(base, 0), swizzle.shift)


def downcast_swizzle(swizzle: Swizzle, factor: int) -> Swizzle:
    """Return the swizzle of elements `factor` times as small (a power of two)."""
    return Swizzle(swizzle.bits, swizzle.base + _log2(factor), swizzle.shift)


def _log2(factor: int) -> int:
    if factor <= 0 or factor & (factor - 1):
        raise LayoutError(f"N must be a power of two, got {number(factor)}")
    return factor.bit_length() - 1
