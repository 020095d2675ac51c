"""Inverses of layouts, and the common part of two layouts.

Source: NVIDIA/cutlass include/cute/layout.hpp.
"""

from tapestry.hardware.layouts.cute.algebra import coalesce, composition
from tapestry.hardware.layouts.cute.basis import Term
from tapestry.hardware.layouts.cute.coordinates import compact
from tapestry.hardware.layouts.cute.integers import (
    ONE,
    ZERO,
    Integer,
    Static,
    constant,
    divided,
    multiplied,
    number,
)
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tuples import integer, leaves, product, unwrapped, wrapped
from tapestry.hardware.layouts.layout import LayoutError


def right_inverse(layout: Strided) -> Strided:
    """Compute the largest R with layout(R(i)) == i for all i < size(R); dynamic strides are left out."""
    shapes, strides, before = _simple(layout)
    known = [k for k, d in enumerate(strides) if isinstance(d, Static)]
    found: list[tuple[Integer, Integer]] = [(ONE, ZERO)]
    reached: Integer = ONE
    for k in _by_stride(known, strides):
        if isinstance(reached, Static) and strides[k] == reached:
            found.append((shapes[k], before[k]))
            reached = multiplied(shapes[k], strides[k])
    return coalesce(Strided(tuple(s for s, _ in found), tuple(d for _, d in found)))


def left_inverse(layout: Strided) -> Strided:
    """Compute the L with L(layout(i)) == i for all i of an injective layout (a quasi-inverse of others).

    Raises `LayoutError` for dynamic strides and where the gaps do not divide ("Left inverse divisibility condition").
    """
    shapes, strides, before = _simple(layout)
    if not all(isinstance(d, Static) for d in strides):
        raise LayoutError(f"Left inverse requires static strides, got {layout}")
    order = _by_stride(list(range(len(strides))), strides)
    gaps: list[Term] = []
    steps: list[Term] = [ZERO]
    for k in order:
        if constant(strides[k], 0):
            continue
        size = product(tuple(gaps))
        if number(strides[k]) % number(size):
            raise LayoutError(f"Left inverse divisibility condition: {strides[k]} by {size} in {layout}")
        gaps.append(divided(strides[k], size))
        steps.append(before[k])
    return coalesce(Strided((*gaps, shapes[order[-1]]), tuple(steps)))


def _simple(layout: Strided) -> tuple[list[Integer], list[Integer], list[Integer]]:
    """Return the extents, strides, and the product of the extents before, of the coalesced modes."""
    simple = coalesce(layout)
    shapes = [integer(s) for s in wrapped(simple.shape)]
    strides = [integer(d) for d in wrapped(simple.stride)]
    before: list[Integer] = [ONE]
    for extent in shapes:
        before.append(multiplied(extent, before[-1]))
    return shapes, strides, before


def _by_stride(places: list[int], strides: list[Integer]) -> list[int]:
    """Sort positions by stride through exchanges, which settles ties as CuTe does."""
    order = list(places)
    for i in range(len(order)):
        for j in range(i + 1, len(order)):
            if number(strides[order[j]]) < number(strides[order[i]]):
                order[i], order[j] = order[j], order[i]
    return order


def max_common_layout(a: Strided, b: Strided) -> Strided:
    """Compute the layout R of the most contiguous elements in both: a(R(i)) == i and b(R(i)) == i."""
    inverse = right_inverse(b)
    first = coalesce(composition(a, inverse)).modes[0]
    if isinstance(first.shape, Static) and constant(first.stride, 1):
        return composition(inverse, first)
    return Strided(ONE, ZERO)


def max_common_vector(a: Strided, b: Strided) -> Integer:
    """Count the contiguous elements that correspond in both layouts."""
    first = coalesce(composition(a, right_inverse(b))).modes[0]
    if isinstance(first.shape, Static) and constant(first.stride, 1):
        return first.shape
    return ONE


def nullspace(layout: Strided) -> Strided:
    """Compute the layout of the coordinates that strides of static 0 send to 0."""
    shapes, strides = leaves(layout.shape), leaves(layout.stride)
    steps = leaves(compact(shapes))
    kept = [k for k, d in enumerate(strides) if constant(d, 0)]
    if not kept:
        return Strided(ONE, ZERO)
    return Strided(unwrapped(tuple(shapes[k] for k in kept)), unwrapped(tuple(steps[k] for k in kept)))
