"""The iterators that a tensor's layout moves: counted numbers, coordinates of the TMA, and pointers.

Source: NVIDIA/cutlass include/cute/pointer_base.hpp and numeric/arithmetic_tuple.hpp.
"""

from dataclasses import dataclass

from tapestry.hardware.layouts.cute.basis import ArithmeticTuple, Term, as_arithmetic, plus
from tapestry.hardware.layouts.cute.integers import number
from tapestry.hardware.layouts.cute.tuples import integer
from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True, slots=True)
class CountingIterator:
    """The integers from `start` on, none stored."""

    start: int

    def __str__(self) -> str:
        return f"counting_iter({self.start})"

    def moved(self, offset: Term) -> "CountingIterator":
        """Return the iterator `offset` further."""
        return CountingIterator(self.start + number(integer(offset)))

    @property
    def value(self) -> Term:
        """The value of `*iterator`."""
        return self.start


@dataclass(frozen=True, slots=True)
class CoordinateIterator:
    """A coordinate that coordinates can be added to: `ArithTuple(0,_0)`."""

    coordinate: Term

    def __str__(self) -> str:
        return f"ArithTuple{self.coordinate}"

    def moved(self, offset: Term) -> "CoordinateIterator":
        """Return the iterator with a coordinate, a basis element or a static 0 added."""
        return CoordinateIterator(plus(self.coordinate, offset))

    @property
    def value(self) -> Term:
        """The value of `*iterator`."""
        return self.coordinate


@dataclass(frozen=True, slots=True)
class Pointer:
    """Memory of elements of `bits` bits, in a space ("gmem", "smem", "rmem" or ""), from element `start` on."""

    bits: int
    space: str = ""
    start: int = 0

    def __str__(self) -> str:
        return f"{self.space + '_' if self.space else ''}ptr[{self.bits}b]"

    def moved(self, offset: Term) -> "Pointer":
        """Return the pointer `offset` elements further."""
        return Pointer(self.bits, self.space, self.start + number(integer(offset)))

    @property
    def value(self) -> Term:
        """A value that does not exist: nothing is stored here, so `LayoutError` is raised."""
        raise LayoutError(f"expected an implicit iterator (counting_iter, ArithTuple), not {self}")


Iterator = CountingIterator | CoordinateIterator | Pointer


def coordinate_iterator(*parts: Term) -> CoordinateIterator:
    """Compute `make_inttuple_iter`: one tuple, or the entries of one (the documentation's form)."""
    found = as_arithmetic(parts[0] if len(parts) == 1 else tuple(parts))
    if not isinstance(found, ArithmeticTuple | int) and not hasattr(found, "value"):
        raise LayoutError("expected a tuple of integers")
    return CoordinateIterator(found)
