"""Hierarchical tuples of integers: their profile, products, and the divisions of shapes.

Source: NVIDIA/cutlass include/cute/int_tuple.hpp, algorithm/tuple_algorithms.hpp and underscore.hpp.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tapestry.hardware.layouts.cute.basis import ArithmeticTuple, Term, summed, text, times
from tapestry.hardware.layouts.cute.integers import (
    ONE,
    ZERO,
    Integer,
    Static,
    multiplied,
    multiplied_up,
    number,
    rounded_up,
)
from tapestry.hardware.layouts.layout import LayoutError


@dataclass(frozen=True, slots=True)
class Underscore:
    """The placeholder `_`: keep this mode; in a tiler: leave this mode alone."""

    def __str__(self) -> str:
        return "_"


KEEP = Underscore()


def integer(term: object) -> Integer:
    """Return `term` if it is an integer; raise `LayoutError` if not."""
    if isinstance(term, int | Static):
        return term
    raise LayoutError(f"expected an integer, not {shown(term)}")


def shown(value: object) -> str:
    """Format a value as CuTe prints it, whatever it is."""
    return f"({','.join(map(shown, value))})" if isinstance(value, tuple) else str(value)


def opened(term: Term) -> Term:
    """Return an arithmetic tuple as a plain tuple; anything else as it is."""
    return term.items if isinstance(term, ArithmeticTuple) else term


def wrapped(term: Term) -> tuple[Term, ...]:
    """Return a tuple as it is, anything else as a tuple of one."""
    term = opened(term)
    return term if isinstance(term, tuple) else (term,)


def unwrapped(term: Term) -> Term:
    """Strip the tuples of one around a term."""
    while isinstance(term, tuple) and len(term) == 1:
        term = term[0]
    return term


def leaves(term: Term) -> tuple[Term, ...]:
    """Return all leaves, left to right, as one tuple (`flatten_to_tuple`)."""
    term = opened(term)
    if isinstance(term, tuple):
        return tuple(leaf for part in term for leaf in leaves(part))
    return (term,)


def flat(term: Term) -> Term:
    """Compute `flatten`: a tuple of depth one; anything that is not a tuple stays."""
    return leaves(term) if isinstance(opened(term), tuple) else term


def rank(term: Term) -> int:
    """Return the number of modes at the top."""
    return len(wrapped(term))


def depth(term: Term) -> int:
    """Count the levels of tuples."""
    term = opened(term)
    return 1 + max(map(depth, term), default=0) if isinstance(term, tuple) else 0


def product(term: Term) -> Integer:
    """Compute the product of all leaves, `_1` of an empty tuple."""
    term = opened(term)
    if isinstance(term, tuple):
        return multiplied_up(map(product, term))
    return integer(term)


def total(term: Term) -> Term:
    """Compute the sum of all leaves, from a static 0."""
    term = opened(term)
    if isinstance(term, tuple):
        return summed(map(total, term))
    return term


def each_leaf(term: Term, change: Callable[[Term], Term]) -> Term:
    """Compute `transform_leaf`: the same hierarchy with every leaf changed."""
    term = opened(term)
    if isinstance(term, tuple):
        return tuple(each_leaf(part, change) for part in term)
    return change(term)


def same_rank(a: Term, b: Term) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """Check that two terms are tuples of one length and return them; `LayoutError` ("Mismatched Ranks") if not."""
    a, b = opened(a), opened(b)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return a, b
    raise LayoutError(f"Mismatched Ranks: {text(a)} and {text(b)}; expected tuples of the same rank")


def congruent(a: Term, b: Term) -> bool:
    """Return whether two terms have one profile: the same hierarchy of tuples."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(congruent, a, b))
    return not isinstance(a, tuple) and not isinstance(b, tuple)


def weakly_congruent(a: Term, b: Term) -> bool:
    """Return whether the profile of `b` refines that of `a`."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(weakly_congruent, a, b))
    return True


def compatible(a: Term, b: Term) -> bool:
    """Return whether any coordinate into shape `a` is one into shape `b`: sizes agree at each leaf of `a`."""
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(compatible, a, b))
    return number(integer(a)) == number(product(b))


def inner_product(a: Term, b: Term) -> Term:
    """Compute the sum of the products of paired leaves; raise `LayoutError` if the hierarchies differ."""
    a, b = opened(a), opened(b)
    if isinstance(a, tuple) or isinstance(b, tuple):
        pairs = zip(*same_rank(a, b), strict=True)
        return summed(inner_product(x, y) for x, y in pairs)
    return times(a, b)


def scaled_each(a: Term, b: Term) -> Term:
    """Compute `elem_scale`: each leaf of `a` times the size of its counterpart in `b`."""
    if isinstance(a, tuple):
        return tuple(scaled_each(x, y) for x, y in zip(*same_rank(a, b), strict=True))
    return multiplied(integer(a), product(b))


def ceil_div(a: Term, b: Term) -> Term:
    """Divide shapes rounding up: entry by entry, or one divisor folded across the entries."""
    if isinstance(a, tuple) and isinstance(b, tuple):
        if len(b) > len(a):
            raise LayoutError(f"Mismatched ranks: {text(b)} has more modes than {text(a)}")
        return tuple(map(ceil_div, a, b + (ONE,) * (len(a) - len(b))))
    if isinstance(a, tuple):
        quotients, rest = [], b
        for part in a:
            quotients.append(ceil_div(part, rest))
            rest = ceil_div(rest, part)
        return tuple(quotients)
    return rounded_up(integer(a), product(b))


def shape_div(a: Term, b: Term) -> Term:
    """Divide shapes in which one of two integers must divide the other.

    `shape_div((6,2),3) == (2,2)`. Raises `LayoutError` ("Divisibility Condition").
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        return tuple(shape_div(x, y) for x, y in zip(*same_rank(a, b), strict=True))
    if isinstance(a, tuple):
        quotients, rest = [], b
        for part in a:
            quotients.append(shape_div(part, rest))
            rest = shape_div(rest, product(part))
        return tuple(quotients)
    over, under = integer(a), product(b)
    x, y = number(over), number(under)
    if x == 0 or y == 0 or (x % y and y % x):
        raise LayoutError(f"Divisibility Condition: neither of {x} and {y} divides the other")
    return rounded_up(over, under)


def zeros_filtered(a: Term, b: Term) -> Term:
    """Compute `filter_zeros`: `b` with 1 wherever `a` has a static 0."""
    if isinstance(a, tuple):
        return tuple(zeros_filtered(x, y) for x, y in zip(*same_rank(a, b), strict=True))
    return each_leaf(b, lambda _: ONE) if a == ZERO else b


def has_underscore(coordinate: object) -> bool:
    """Return whether `_` occurs anywhere in a coordinate."""
    if isinstance(coordinate, tuple):
        return any(map(has_underscore, coordinate))
    return isinstance(coordinate, Underscore)


def sliced(coordinate: object, term: Term, kept: bool = True) -> Term:
    """Compute `slice`: the modes paired with `_` in a coordinate; with `kept` False `dice`: the other modes."""
    if isinstance(coordinate, tuple):
        return _lifted(coordinate, term, kept)
    return term if isinstance(coordinate, Underscore) is kept else ()


def _lifted(coordinate: object, term: Term, kept: bool) -> tuple[Term, ...]:
    if not isinstance(coordinate, tuple):
        return (term,) if isinstance(coordinate, Underscore) is kept else ()
    if not isinstance(term, tuple) or len(term) != len(coordinate):
        raise LayoutError(f"Mismatched Ranks: coordinate {shown(coordinate)} does not fit {text(term)}")
    return tuple(part for c, t in zip(coordinate, term, strict=True) for part in _lifted(c, t, kept))


def zipped(term: Term) -> Term:
    """Compute `zip`: from ((a,b),(x,y)) to ((a,x),(b,y)); a flat tuple stays within a tuple of one."""
    parts = wrapped(term)
    if not parts or not isinstance(parts[0], tuple):
        return (term,)
    rows = [same_rank(parts[0], part)[1] for part in parts]
    return tuple(tuple(column) for column in zip(*rows, strict=True))


def zipped_by(term: Term, guide: object) -> tuple[Term, ...]:
    """Compute `zip2_by`: gather pairs ((A,a),(B,b),c) found at the leaves of a guide into ((A,B),(a,b,c))."""
    if isinstance(guide, tuple):
        parts = wrapped(term)
        if len(parts) < len(guide):
            raise LayoutError(f"Mismatched ranks: {text(term)} has fewer modes than its tiler")
        split = [zipped_by(part, g) for part, g in zip(parts[: len(guide)], guide, strict=True)]
        return tuple(s[0] for s in split), (*(s[1] for s in split), *parts[len(guide) :])
    if isinstance(term, tuple) and len(term) == 2:
        return term
    raise LayoutError(f"Mismatched ranks: expected a tile and its rest, not {text(term)}")
