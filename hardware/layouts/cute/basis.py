"""Non-integer strides: basis elements `E<0,1>` and arithmetic tuples, an integer module.

Source: NVIDIA/cutlass include/cute/numeric/arithmetic_tuple.hpp and media/docs/cpp/cute/0z_tma_tensors.md. A basis
element is an infinite tuple with one entry that is not zero; `5*E<0,1>` prints `5@1@0`, innermost mode first.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

from tapestry.hardware.layouts.cute.integers import (
    ONE,
    ZERO,
    Integer,
    Static,
    absolute,
    added,
    combined,
    constant,
    multiplied,
    negated,
    number,
    rounded_up,
)
from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True, slots=True)
class ScaledBasis:
    """`value` at position `modes[0]`, inside it at `modes[1]`, ...; zero elsewhere. No modes: the value itself."""

    value: Integer
    modes: tuple[int, ...]

    def __str__(self) -> str:
        return str(self.value) + "".join(f"@{mode}" for mode in reversed(self.modes))


@dataclass(frozen=True, slots=True)
class ArithmeticTuple:
    """A tuple that can be added to, as if zeros followed its last entry."""

    items: "tuple[Term, ...]"

    def __str__(self) -> str:
        return text(self.items)


Term: TypeAlias = int | Static | ScaledBasis | ArithmeticTuple | tuple["Term", ...]
"""Whatever stands in a shape, a stride or a coordinate: an integer, a basis element, or a tuple of terms."""


def term(value: object) -> Term:
    """Return the value if it can be computed with; raise `LayoutError` for layouts, iterators and `_`."""
    if isinstance(value, tuple):
        return tuple(map(term, value))
    if isinstance(value, int | Static | ScaledBasis | ArithmeticTuple):
        return value
    raise LayoutError(f"expected an integer, a basis element or a tuple of such, not {value}")


def text(term: Term) -> str:
    """Format a term as CuTe prints it: `((_128,_64),2)`, `_1@0`."""
    if isinstance(term, tuple):
        return f"({','.join(map(text, term))})"
    return str(term)


def basis(*modes: int) -> ScaledBasis:
    """Build the normalized basis element `E<modes...>`."""
    return ScaledBasis(ONE, modes)


def basis_like(shape: Term, modes: tuple[int, ...] = ()) -> Term:
    """Compute `make_basis_like`: for each leaf of a shape the basis element of its position."""
    if isinstance(shape, tuple):
        return tuple(basis_like(part, (*modes, place)) for place, part in enumerate(shape))
    return ScaledBasis(ONE, modes)


def as_arithmetic(term: Term) -> Term:
    """Compute `as_arithmetic_tuple`: a basis element spelled out with zeros, a tuple made addable; an integer stays."""
    if isinstance(term, ScaledBasis):
        spelled: Term = term.value
        for mode in reversed(term.modes):
            spelled = ArithmeticTuple((ZERO,) * mode + (spelled,))
        return spelled
    if isinstance(term, tuple):
        return ArithmeticTuple(tuple(map(as_arithmetic, term)))
    return term


def as_coordinate(term: Term) -> Term:
    """Convert a term to a plain coordinate: arithmetic tuples and basis elements become nested tuples."""
    spelled = as_arithmetic(term)
    if isinstance(spelled, ArithmeticTuple):
        return tuple(map(as_coordinate, spelled.items))
    return spelled


def plus(a: Term, b: Term) -> Term:
    """Compute `a + b`: integers, basis elements of compatible hierarchies, arithmetic tuples (shorter zero-extended).

    The sum of two basis elements is always an arithmetic tuple. Raises `LayoutError` where CuTe does not compile: a
    number that is not a static zero added to a tuple, two plain tuples.
    """
    left, right = (t.value if isinstance(t, ScaledBasis) and not t.modes else t for t in (a, b))
    if isinstance(left, int | Static) and isinstance(right, int | Static):
        return added(left, right)
    for zero, other in ((left, right), (right, left)):
        if constant(zero, 0) and isinstance(other, ScaledBasis | ArithmeticTuple):
            return other
    left, right = _addable(left, right), _addable(right, left)
    if isinstance(left, ArithmeticTuple) and isinstance(right, ArithmeticTuple):
        length = max(len(left.items), len(right.items))
        pairs = zip(_extended(left, length), _extended(right, length), strict=True)
        return ArithmeticTuple(tuple(plus(x, y) for x, y in pairs))
    what = "ScaledBasis" if isinstance(a, ScaledBasis) or isinstance(b, ScaledBasis) else "Arithmetic tuple"
    raise LayoutError(
        f"{what} op+ error! The hierarchies of {text(a)} and {text(b)} are not compatible: only a static 0 "
        "can be added to a tuple, and tuples add entry by entry"
    )


def summed(terms: Iterable[Term], start: Term = ZERO) -> Term:
    """Sum terms, left to right, from `start`."""
    return reduce(plus, terms, start)


def _addable(term: Term, beside: Term) -> Term:
    """Spell out a basis element; make a plain tuple arithmetic if the other operand is arithmetic."""
    if isinstance(term, tuple):
        return ArithmeticTuple(term) if isinstance(beside, ArithmeticTuple | ScaledBasis) else term
    return as_arithmetic(term)


def _extended(term: ArithmeticTuple, length: int) -> tuple[Term, ...]:
    return term.items + (ZERO,) * (length - len(term.items))


def negative(term: Term) -> Term:
    """Compute `-term`, entry by entry."""
    if isinstance(term, int | Static):
        return negated(term)
    if isinstance(term, ScaledBasis):
        return ScaledBasis(negated(term.value), term.modes)
    if isinstance(term, ArithmeticTuple):
        return ArithmeticTuple(tuple(map(negative, term.items)))
    raise LayoutError(
        f"expected an integer, a basis element or an arithmetic tuple to negate, not {text(term)}"
    )


def minus(a: Term, b: Term) -> Term:
    """Compute `a - b`; a plain tuple counts as arithmetic if the other operand is."""
    if isinstance(a, ArithmeticTuple) and isinstance(b, tuple):
        return minus(a, ArithmeticTuple(b))
    if constant(a, 0) and isinstance(b, ArithmeticTuple):
        return negative(b)
    return plus(a, negative(b))


def times(a: Term, b: Term) -> Term:
    """Compute `a * b`: integers, or an integer and an element of the module, which it scales entry by entry."""
    if isinstance(a, int | Static) and isinstance(b, int | Static):
        return multiplied(a, b)
    scale, element = (a, b) if isinstance(a, int | Static) else (b, a)
    if isinstance(scale, ScaledBasis) and not scale.modes:
        scale = scale.value
    if isinstance(scale, int | Static):
        if isinstance(element, ScaledBasis):
            return ScaledBasis(multiplied(scale, element.value), element.modes)
        if isinstance(element, ArithmeticTuple):
            return ArithmeticTuple(tuple(times(scale, item) for item in element.items))
    raise LayoutError(f"expected an integer and an element to scale, not {text(a)} * {text(b)}")


def magnitude(term: Term) -> Term:
    """Compute `abs` of an integer or of a basis element's value."""
    if isinstance(term, ScaledBasis):
        return ScaledBasis(absolute(term.value), term.modes)
    if isinstance(term, int | Static):
        return absolute(term)
    raise LayoutError(f"expected an integer or a basis element, not abs({text(term)})")


def divided_up(term: Term, divisor: Integer) -> Term:
    """Compute `ceil_div` of an integer or of a basis element's value by an integer."""
    if isinstance(term, ScaledBasis):
        return ScaledBasis(rounded_up(term.value, divisor), term.modes)
    if isinstance(term, int | Static):
        return rounded_up(term, divisor)
    raise LayoutError(f"expected an integer or a basis element, not ceil_div({text(term)}, {divisor})")


def equal(a: Term, b: Term) -> Integer:
    """Compare `a == b` as CuTe does: static where the types decide, else dynamic; bases differ unless modes agree."""
    if isinstance(a, int | Static) and isinstance(b, int | Static):
        return combined(a, b, lambda x, y: int(x == y))
    if isinstance(a, ScaledBasis) and isinstance(b, ScaledBasis):
        return equal(a.value, b.value) if a.modes == b.modes else ZERO
    left = a.items if isinstance(a, ArithmeticTuple) else a
    right = b.items if isinstance(b, ArithmeticTuple) else b
    if not (isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right)):
        return ZERO
    found = [equal(x, y) for x, y in zip(left, right, strict=True)]
    if any(constant(f, 0) for f in found):
        return ZERO
    return ONE if all(isinstance(f, Static) for f in found) else int(all(map(number, found)))
