"""Coordinates into shapes: natural, one-dimensional and partial ones, and the compact strides that number a shape.

Source: NVIDIA/cutlass include/cute/stride.hpp. One-dimensional coordinates count colexicographically: the first mode
runs fastest, and the last mode takes the remainder.
"""

from itertools import chain

from tapestry.hardware.layouts.cute.basis import Term, as_coordinate, basis_like, plus, summed, text, times
from tapestry.hardware.layouts.cute.integers import (
    ONE,
    ZERO,
    Integer,
    Static,
    added,
    constant,
    divided,
    multiplied,
    multiplied_up,
    number,
    remainder,
)
from tapestry.hardware.layouts.cute.tuples import each_leaf, integer, leaves, opened, product, same_rank
from tapestry.hardware.layouts.layout import LayoutError


def index_of(coordinate: Term, shape: Term, stride: Term) -> Term:
    """Compute `crd2idx`: the inner product of a coordinate with strides, integers first split over their shape.

    Raises `LayoutError` if the coordinate is deeper than the shape or of another rank.
    """
    coordinate = opened(coordinate)
    if isinstance(coordinate, tuple):
        if not isinstance(shape, tuple) or len(shape) != len(coordinate):
            raise LayoutError(
                f"Mismatched Ranks: coordinate {text(coordinate)} does not fit the shape {text(shape)}"
            )
        strides = same_rank(shape, stride)[1]
        parts = [index_of(c, s, d) for c, s, d in zip(coordinate, shape, strides, strict=True)]
        return summed(parts[1:], parts[0]) if parts else ZERO
    if not isinstance(shape, tuple):
        return times(coordinate, stride)
    return _spread(integer(coordinate), *same_rank(shape, stride))


def _spread(coordinate: Integer, shape: tuple[Term, ...], stride: tuple[Term, ...]) -> Term:
    if not shape:
        return ZERO
    if len(shape) == 1:
        return index_of(coordinate, shape[0], stride[0])
    if constant(coordinate, 0):
        rest = summed(map(lambda s, d: index_of(ZERO, s, d), shape[1:], stride[1:]))
        return plus(index_of(ZERO, shape[0], stride[0]), rest)
    size = product(shape[0])
    first = index_of(remainder(coordinate, size), shape[0], stride[0])
    return plus(first, _spread(divided(coordinate, size), shape[1:], stride[1:]))


def linear_index(coordinate: Term, shape: Term) -> Integer:
    """Compute `crd2idx(c, shape)`: the one-dimensional coordinate of a coordinate."""
    coordinate = opened(coordinate)
    if not isinstance(coordinate, tuple):
        return integer(coordinate)
    same_rank(coordinate, shape)
    sizes = map(product, leaves(_like(shape, coordinate)))
    pairs = list(zip(map(integer, leaves(coordinate)), sizes, strict=True))
    if not pairs:
        return ZERO
    index = pairs[-1][0]
    for part, size in reversed(pairs[:-1]):
        index = added(part, multiplied(size, index))
    return index


def _like(shape: Term, coordinate: Term) -> Term:
    if isinstance(coordinate, tuple):
        return tuple(_like(s, c) for s, c in zip(*same_rank(shape, coordinate), strict=True))
    return product(shape)


def coordinate_of(index: Term, shape: Term) -> Term:
    """Compute `idx2crd(i, shape)`: a one-dimensional coordinate as a shape's natural one; the last mode unbounded."""
    if isinstance(index, tuple):
        return tuple(coordinate_of(i, s) for i, s in zip(*same_rank(index, shape), strict=True))
    if isinstance(shape, tuple):
        return as_coordinate(index_of(index, shape, basis_like(shape)))
    return index


def strided_coordinate_of(index: Term, shape: Term, stride: Term) -> Term:
    """Compute `idx2crd(i, shape, stride)`: (i / stride) % shape in every mode, for compact layouts."""
    if isinstance(shape, tuple):
        parts = index if isinstance(index, tuple) else (index,) * len(shape)
        if not isinstance(stride, tuple):
            stride = compact(shape, integer(stride))
        same_rank(shape, parts)
        triples = zip(parts, *same_rank(shape, stride), strict=True)
        return tuple(strided_coordinate_of(i, s, d) for i, s, d in triples)
    if constant(shape, 1):
        return ZERO
    return remainder(divided(integer(index), integer(stride)), integer(shape))


def converted(coordinate: Term, source: Term, target: Term) -> Term:
    """Compute `crd2crd`: a coordinate of one shape as the coordinate of another of the same size."""
    if isinstance(coordinate, tuple) and isinstance(source, tuple) and isinstance(target, tuple):
        same_rank(coordinate, target)
        pairs = zip(*same_rank(coordinate, source), target, strict=True)
        return tuple(converted(c, s, t) for c, s, t in pairs)
    return coordinate_of(linear_index(coordinate, source), target)


def compact(shape: Term, start: Term = ONE, leftmost: bool = True) -> Term:
    """Compute `compact_major`: the strides of a shape stored without gaps, leftmost mode fastest (or rightmost).

    A static extent of 1 gets the stride `_0`. A tuple `start` gives each mode its own start.
    """
    if isinstance(start, tuple):
        return tuple(compact(s, c, leftmost) for s, c in zip(*same_rank(shape, start), strict=True))
    return _compact(shape, integer(start), leftmost)[0]


def _compact(shape: Term, current: Integer, leftmost: bool) -> tuple[Term, Integer]:
    if isinstance(shape, tuple):
        strides: list[Term] = []
        for part in shape if leftmost else reversed(shape):
            stride, current = _compact(part, current, leftmost)
            strides.append(stride)
        return tuple(strides if leftmost else reversed(strides)), current
    extent = integer(shape)
    return (ZERO, current) if constant(extent, 1) else (current, multiplied(current, extent))


def compact_in_order(shape: Term, order: Term) -> Term:
    """Compute `compact_order`: gapless strides, lower orders faster; dynamic orders count as large, left to right."""
    sizes = [product(part) for part in leaves(_like(shape, order))]
    orders = [integer(leaf) for leaf in leaves(order)]
    highest = max((number(o) for o in orders if isinstance(o, Static)), default=0)
    ranks = iter([number(o) if isinstance(o, Static) else highest + 1 + k for k, o in enumerate(orders)])
    known = each_leaf(order, lambda _: Static(next(ranks)))
    return _ordered(shape, known, sizes, [number(integer(leaf)) for leaf in leaves(known)])


def _ordered(shape: Term, order: Term, sizes: list[Integer], orders: list[int]) -> Term:
    if isinstance(order, tuple):
        return tuple(_ordered(s, o, sizes, orders) for s, o in zip(*same_rank(shape, order), strict=True))
    before = (s for s, o in zip(sizes, orders, strict=True) if o < number(integer(order)))
    return compact(shape, multiplied_up(chain((ONE,), before)))
