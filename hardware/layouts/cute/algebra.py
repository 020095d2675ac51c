"""Coalescing, composition and complement of layouts.

Source: NVIDIA/cutlass include/cute/layout.hpp and media/docs/cpp/cute/02_layout_algebra.md. What is merged or dropped
is decided by static integers only, as a compiler must: a dynamic extent that happens to be 1 stays a mode.
"""

from collections.abc import Callable

from tapestry.hardware.layouts.cute.basis import ScaledBasis, Term, equal, text, times
from tapestry.hardware.layouts.cute.carries import check_carries
from tapestry.hardware.layouts.cute.coordinates import compact
from tapestry.hardware.layouts.cute.integers import (
    ONE,
    ZERO,
    Integer,
    Static,
    absolute,
    constant,
    divided,
    multiplied,
    number,
    remainder,
    rounded_up,
    sign,
    smaller,
)
from tapestry.hardware.layouts.cute.strided import Strided, joined
from tapestry.hardware.layouts.cute.tuples import (
    Underscore,
    ceil_div,
    integer,
    leaves,
    same_rank,
    unwrapped,
    wrapped,
)
from tapestry.hardware.layouts.layout import LayoutError

Tiler = object
"""A layout, an integer, `_`, or a tuple of tilers, one for each mode."""


def by_mode(
    layout: Strided, tiler: tuple[Tiler, ...], change: Callable[[Strided, Tiler], Strided]
) -> Strided:
    """Apply a tuple of tilers to the first modes of a layout and keep the rest."""
    modes = layout.modes
    if len(tiler) > len(modes):
        raise LayoutError(f"Too many modes in tiler: {len(tiler)} for the rank {len(modes)} of {layout}")
    return joined(map(change, modes, tiler + (Underscore(),) * (len(modes) - len(tiler))))


def coalesce(layout: Strided, profile: Tiler = ZERO) -> Strided:
    """Reduce a layout to the fewest modes of an equal function; a tuple `profile` coalesces within its leaves."""
    if isinstance(profile, tuple):
        return by_mode(layout, profile, lambda l, p: l if isinstance(p, Underscore) else coalesce(l, p))
    shape, stride = leaves(layout.shape), leaves(layout.stride)
    return _merged(shape, stride, shape[-1]) if shape else Strided(ONE, ZERO)


def coalesced_beyond(layout: Strided, profile: Term) -> Strided:
    """Compute `coalesce_x`: coalesced, with the function kept outside the domain too (an outer extent of 1 stays)."""
    if isinstance(profile, tuple):
        return by_mode(
            layout,
            profile,
            lambda l, p: l if isinstance(p, Underscore) else coalesced_beyond(l, p),  # type: ignore[arg-type]
        )
    shape, stride = leaves(layout.shape), leaves(layout.stride)
    if not shape:
        return Strided(ONE, ZERO)
    return _merged(shape, stride, Static(2) if constant(shape[-1], 1) else shape[-1])


def _merged(shape: tuple[Term, ...], stride: tuple[Term, ...], outermost: Term) -> Strided:
    """Merge neighbors from the back: s0:d0 and s1:d1 become s0*s1:d0 where s0*d0 == d1 is statically known."""
    shapes, strides = [outermost], [stride[-1]]
    for extent, step in zip(reversed(shape[:-1]), reversed(stride[:-1]), strict=True):
        if constant(extent, 1):
            continue
        if len(shapes) == 1 and constant(shapes[0], 1):
            shapes, strides = [extent], [step]
        elif isinstance(shapes[0], Static) and constant(equal(times(extent, step), strides[0]), 1):
            shapes[0] = multiplied(integer(extent), shapes[0])
            strides[0] = step
        else:
            shapes.insert(0, extent)
            strides.insert(0, step)
    if len(shapes) > 1:
        return Strided(tuple(shapes), tuple(strides))
    return Strided(ONE, ZERO) if constant(shapes[0], 1) else Strided(shapes[0], strides[0])


def filtered(layout: Strided, profile: Tiler = ZERO) -> Strided:
    """Compute `filter`: coalesced without modes of static stride 0 or extent 1."""
    if isinstance(profile, tuple):
        return by_mode(layout, profile, lambda l, p: l if isinstance(p, Underscore) else filtered(l, p))
    return coalesce(layout.zeros_filtered)


def coalesced_shape(shape: Term) -> Term:
    """Multiply neighboring static extents of a shape, and neighboring dynamic ones."""
    extents = leaves(shape)
    merged: list[Term] = [extents[0]]
    for extent in extents[1:]:
        if isinstance(merged[-1], Static) is isinstance(extent, Static):
            merged[-1] = multiplied(integer(merged[-1]), integer(extent))
        else:
            merged.append(extent)
    return merged[0] if len(merged) == 1 else tuple(merged)


def composition(a: Strided, b: Tiler) -> Strided:
    """Compute the layout R with R(c) = A(B(c)) at every coordinate of B; a tuple composes by mode and drops the rest.

    B may have basis strides, which pick a mode of A. Raises `LayoutError` ("Stride Divisibility Condition", "Shape
    Divisibility Condition") where integers, static or not, show that composing mode by mode is not that function.
    """
    if isinstance(b, tuple):
        if len(b) > a.rank:
            raise LayoutError(f"Too many modes in tiler: {len(b)} for the rank {a.rank} of {a}")
        return joined(map(composition, a.modes, b))
    if isinstance(b, Underscore):
        return a
    if not isinstance(b, Strided):
        b = Strided(integer(b), ONE)
    flat = coalesced_beyond(a, b.coprofile)
    found = _composed(flat, b.shape, b.stride)
    check_carries(flat, b, found)
    return found


def _composed(a: Strided, shape: Term, stride: Term) -> Strided:
    if isinstance(shape, tuple):
        pairs = zip(*same_rank(shape, stride), strict=True)
        return joined(_composed(a, s, d) for s, d in pairs)
    if isinstance(stride, ScaledBasis):
        for place in stride.modes:
            if place >= a.rank:
                raise LayoutError(f"expected a mode within {a}, not the basis stride {stride}")
            a = a.modes[place]
        stride = stride.value
    if constant(stride, 0):
        return Strided(shape, stride)
    if not isinstance(a.shape, tuple):
        return Strided(shape, times(stride, a.stride))
    return _composed_flat(a, integer(shape), integer(stride))


def _composed_flat(a: Strided, rest: Integer, step: Integer) -> Strided:
    """Compose a flat layout with one mode `rest:step`: walk A's modes, skipping `step` elements and taking `rest`."""
    shapes: list[Term] = []
    strides: list[Term] = []
    modes = a.modes
    for mode in modes[:-1]:
        extent = integer(mode.shape)
        known = isinstance(extent, Static) and isinstance(step, Static)
        if known and number(step) >= number(extent) and number(remainder(step, extent)):
            raise LayoutError(f"Stride Divisibility Condition: stride {step} and extent {extent} of {a}")
        taken = rounded_up(extent, absolute(step))
        following = multiplied(rounded_up(absolute(step), extent), sign(step))
        if not (constant(taken, 1) or constant(rest, 1)):
            new = smaller(taken, rest)
            if isinstance(new, Static) and isinstance(rest, Static) and number(remainder(rest, new)):
                raise LayoutError(
                    f"Shape Divisibility Condition: {new} of {extent} in {a} does not divide {rest}"
                )
            if known and isinstance(rest, Static) and number(remainder(extent, step)) and new != rest:
                raise LayoutError(
                    f"Stride Divisibility Condition: stride {step} leaves the extent {extent} of {a} unevenly"
                )
            shapes.append(new)
            strides.append(times(step, mode.stride))
            rest = divided(rest, new)
        step = following
    if shapes and constant(rest, 1):
        return Strided(unwrapped(tuple(shapes)), unwrapped(tuple(strides)))
    shapes.append(rest)
    strides.append(times(step, modes[-1].stride))
    return Strided(unwrapped(tuple(shapes)), unwrapped(tuple(strides)))


def complement(layout: Strided, cotarget: Term | None = None) -> Strided:
    """Compute the ordered layout of elements not reached by `layout`, up to `cotarget` (its own codomain if None).

    Raises `LayoutError` for a layout that is not injective, and for dynamic strides of more than one mode.
    """
    simple = filtered(layout)
    cotarget = simple.cosize if cotarget is None else cotarget
    if constant(simple.stride, 0):
        rest = coalesced_shape(cotarget)
        return Strided(rest, compact(rest))
    shapes, strides = _ascending(simple)
    gaps: list[Term] = []
    steps: list[Term] = [ONE]
    for extent, stride in zip(shapes, strides, strict=True):
        gap = divided(stride, integer(steps[-1]))
        if constant(gap, 0):
            raise LayoutError(f"Non-injective Layout detected in complement: {layout}")
        gaps.append(gap)
        steps.append(multiplied(stride, extent))
    rest = coalesced_shape(ceil_div(cotarget, steps[-1]))
    beyond = compact(rest, steps.pop())
    return coalesce(Strided((tuple(gaps), rest), (tuple(steps), beyond)))


def _ascending(layout: Strided) -> tuple[list[Integer], list[Integer]]:
    shapes, strides = wrapped(layout.shape), wrapped(layout.stride)
    if len(strides) > 1 and not all(isinstance(d, Static) for d in strides):
        raise LayoutError(
            f"Dynamic-stride complement only for rank-1 layouts: {text(layout.stride)} needs static integers"
        )
    order = sorted(range(len(strides)), key=lambda k: number(integer(strides[k])))
    return [integer(shapes[k]) for k in order], [integer(strides[k]) for k in order]
