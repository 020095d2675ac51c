"""Layouts of the same memory with elements of another size, and tilers that divide a shape evenly.

Source: NVIDIA/cutlass include/cute/layout.hpp (upcast, downcast, max_alignment, domain_distribute, make_layout_like).
"""

from tapestry.hardware.layouts.cute.algebra import coalesce
from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term, times
from tapestry.hardware.layouts.cute.composed import Composed, Swizzle, downcast_swizzle, upcast_swizzle
from tapestry.hardware.layouts.cute.coordinates import compact, compact_in_order
from tapestry.hardware.layouts.cute.integers import (
    ONE,
    ZERO,
    Integer,
    Static,
    absolute,
    common_divisor,
    constant,
    divided,
    multiplied,
    number,
    rounded_up,
    sign,
)
from tapestry.hardware.layouts.cute.inverse import right_inverse
from tapestry.hardware.layouts.cute.strided import Strided, joined
from tapestry.hardware.layouts.cute.tiling import logical_divide
from tapestry.hardware.layouts.cute.tuples import (
    ceil_div,
    each_leaf,
    integer,
    leaves,
    product,
    same_rank,
    wrapped,
    zeros_filtered,
)
from tapestry.hardware.layouts.layout import LayoutError


def upcast(layout: Strided, factor: int) -> Strided:
    """Compute the layout of elements `factor` times as large: contiguous modes shrink, other strides are divided.

    Raises `LayoutError` ("Divisibility condition") where neither of a static stride and the factor divides the other.
    """
    if isinstance(layout.shape, tuple):
        return joined(upcast(mode, factor) for mode in layout.modes)
    if isinstance(layout.stride, ScaledBasis):
        inner = upcast(Strided(layout.shape, layout.stride.value), factor)
        return Strided(inner.shape, ScaledBasis(integer(inner.stride), layout.stride.modes))
    shape, stride = integer(layout.shape), integer(layout.stride)
    if constant(stride, 0):
        return layout
    if not isinstance(stride, Static):
        return Strided(shape, divided(stride, Static(factor)))
    if stride.value % factor and factor % stride.value:
        raise LayoutError(f"Divisibility condition: stride {stride.value} and {factor} in upcast of {layout}")
    step = absolute(stride)
    taken = rounded_up(Static(factor), step)
    return Strided(rounded_up(shape, taken), multiplied(sign(stride), rounded_up(step, Static(factor))))


def downcast(layout: Strided, factor: int) -> Strided:
    """Compute the layout of elements `factor` times as small: contiguous modes grow, other strides are multiplied.

    Raises `LayoutError` ("Downcast requires adjacent elements") without a static stride of 1.
    """
    if not any(constant(stride, 1) for stride in leaves(layout.stride)):
        raise LayoutError(f"Downcast requires adjacent elements, got {layout}")
    return _downcast(layout, Static(factor))


def _downcast(layout: Strided, factor: Static) -> Strided:
    if isinstance(layout.shape, tuple):
        return joined(_downcast(mode, factor) for mode in layout.modes)
    if constant(layout.stride, 1) or constant(layout.stride, -1):
        return Strided(multiplied(integer(layout.shape), factor), layout.stride)
    return Strided(layout.shape, times(layout.stride, factor))


def recast(layout: Strided, old_bits: int, new_bits: int) -> Strided:
    """Compute `recast_layout`: a layout of elements of `old_bits` in elements of `new_bits`."""
    divisor = number(common_divisor(old_bits, new_bits))
    larger, smaller = new_bits // divisor, old_bits // divisor
    raised = upcast(layout, larger) if larger > 1 else layout
    return downcast(raised, smaller) if smaller > 1 else raised


def upcast_any(layout: Strided | Composed, factor: int) -> Strided | Composed:
    """Apply `upcast` to a layout, swizzled or not."""
    if isinstance(layout, Strided):
        return upcast(layout, factor)
    outer = layout.outer
    changed = upcast_swizzle(outer, factor) if isinstance(outer, Swizzle) else upcast(outer, factor)
    return Composed(changed, divided(layout.offset, Static(factor)), upcast_any(layout.inner, factor))


def downcast_any(layout: Strided | Composed, factor: int) -> Strided | Composed:
    """Apply `downcast` to a layout, swizzled or not."""
    if isinstance(layout, Strided):
        return downcast(layout, factor)
    outer = layout.outer
    changed = downcast_swizzle(outer, factor) if isinstance(outer, Swizzle) else downcast(outer, factor)
    return Composed(changed, multiplied(layout.offset, Static(factor)), downcast_any(layout.inner, factor))


def max_alignment(layout: Strided) -> Integer:
    """Find the largest N for which `upcast(layout, N)` holds, by static integers only."""
    flat = coalesce(layout)
    shape = each_leaf(flat.shape, lambda s: s if isinstance(s, Static) else ONE)
    stride = each_leaf(flat.stride, lambda d: d if isinstance(d, Static) else ZERO)
    known = Strided(shape, stride)
    permuted = logical_divide(known, right_inverse(known))
    found: Integer = product(permuted.modes[0].shape)
    for step in leaves(permuted.modes[1].stride):
        found = common_divisor(found, integer(step))
    return found


def domain_distribute(shape: Term, count: Integer) -> Strided:
    """Spread a layout of `count` elements over a shape, each extent taking the common divisor it can."""
    extents = leaves(shape)
    taken: list[Term] = []
    for extent in extents:
        taken.append(common_divisor(integer(extent), count))
        count = divided(count, integer(taken[-1]))
    return coalesce(Strided(tuple(taken), compact(tuple(extents))))


def evenly_divides(shape: Term, tiler: object) -> bool:
    """Return whether a tiler divides a shape without remainder."""
    if isinstance(tiler, tuple):
        parts = wrapped(shape)
        return len(tiler) <= len(parts) and all(map(evenly_divides, parts, tiler))
    size = tiler.size if isinstance(tiler, Strided) else product(integer(tiler))
    return number(product(shape)) == number(size) * number(product(ceil_div(shape, size)))


def layout_like(layout: Strided) -> Strided:
    """Compute `make_layout_like`: a gapless layout of the same shape, its strides ordered alike; static 0s stay."""
    shape = zeros_filtered(layout.stride, layout.shape)
    return Strided(layout.shape, compact_in_order(shape, layout.stride))


def paired(a: Strided, b: Strided) -> Strided:
    """Compute `zip(a, b)`: the modes of two layouts of one rank, pairwise."""
    same_rank(a.shape, b.shape)
    return joined(joined(pair) for pair in zip(a.modes, b.modes, strict=True))
