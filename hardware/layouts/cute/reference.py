"""The rules of CuTe's Python reference where its answers differ from the headers': plain integers, no static ones.

Source: NVIDIA/cutlass python/pycute/layout.py and int_tuple.py. The headers look for an inverse through every mode and
keep the last mode of a coordinate unbounded; the reference stops at the first gap and reduces every mode. Both are
used in published examples, so both are here; layouts are read as if all integers were static.
"""

from tapestry.hardware.layouts.cute.algebra import coalesce
from tapestry.hardware.layouts.cute.basis import Term
from tapestry.hardware.layouts.cute.coordinates import compact
from tapestry.hardware.layouts.cute.integers import Static, number
from tapestry.hardware.layouts.cute.strided import Strided, joined
from tapestry.hardware.layouts.cute.tuples import each_leaf, integer, leaves, product, same_rank
from tapestry.hardware.layouts.layout import LayoutError


def static(term: Term) -> Term:
    """Return a term with every integer static."""
    return each_leaf(term, lambda leaf: Static(number(integer(leaf))))


def prefix_product(shape: Term, start: Term = 1) -> Term:
    """Compute the exclusive prefix product of a shape's leaves, extents of 1 included, with the shape's hierarchy."""
    if isinstance(start, tuple):
        return tuple(prefix_product(s, i) for s, i in zip(*same_rank(shape, start), strict=True))
    if not isinstance(shape, tuple):
        return start
    products, current = [], number(integer(start))
    for part in shape:
        products.append(prefix_product(part, current))
        current *= number(product(part))
    return tuple(products)


def layout_of(shape: Term, stride: Term | None = None) -> Strided:
    """Build a layout of static integers; compact, first mode fastest, without strides."""
    return Strided(static(shape), static(prefix_product(shape) if stride is None else stride))


def coordinate_of(index: Term, shape: Term, stride: Term | None = None) -> Term:
    """Compute `idx2crd`: (index // stride) % shape in every mode, the last one too."""
    steps = prefix_product(shape) if stride is None else stride
    if isinstance(shape, tuple):
        parts = index if isinstance(index, tuple) else (index,) * len(shape)
        same_rank(shape, parts)
        triples = zip(parts, *same_rank(shape, steps), strict=True)
        return tuple(coordinate_of(i, s, d) for i, s, d in triples)
    extent, step = number(integer(shape)), number(integer(steps))
    if not extent or not step:
        raise LayoutError(f"expected extents and strides other than 0, not {extent} and {step}")
    return number(integer(index)) // step % extent


def complement(layout: Strided, cotarget: int = 1) -> Strided:
    """Compute the ordered layout of offsets not reached below `cotarget`; raise `LayoutError` if images collide."""
    shapes: list[int] = []
    strides: list[int] = []
    reached = 1
    for stride, extent, _ in _sorted_modes(layout):
        if stride == 0 or extent == 1:
            continue
        if reached > extent * stride:
            raise LayoutError(f"Non-injective Layout detected in complement: {layout}")
        shapes.append(stride // reached)
        strides.append(reached)
        reached = extent * stride
    shapes.append(-(-cotarget // reached))
    strides.append(reached)
    return coalesce(Strided(static(tuple(shapes)), static(tuple(strides))))


def right_inverse(layout: Strided) -> Strided:
    """Compute the R with layout(R(i)) == i, up to the first stride that does not continue the ones before."""
    shapes: list[int] = []
    strides: list[int] = []
    reached = 1
    for stride, extent, before in _sorted_modes(layout):
        if extent == 1:
            continue
        if reached != stride:
            break
        shapes.append(extent)
        strides.append(before)
        reached = extent * stride
    return coalesce(Strided(static(tuple(shapes)), static(tuple(strides))))


def left_inverse(layout: Strided) -> Strided:
    """Compute the right inverse of the layout together with its complement."""
    return right_inverse(joined((layout, complement(layout))))


def _sorted_modes(layout: Strided) -> list[tuple[int, int, int]]:
    """Return (stride, extent, product of the extents before) of every leaf, by stride."""
    shape, stride = (static(tuple(leaves(t))) for t in (layout.shape, layout.stride))
    before = leaves(prefix_product(shape))
    triples = zip(leaves(stride), leaves(shape), before, strict=True)
    return sorted((number(integer(d)), number(integer(s)), number(integer(b))) for d, s, b in triples)


__all__ = [
    "compact",
    "complement",
    "coordinate_of",
    "layout_of",
    "left_inverse",
    "prefix_product",
    "right_inverse",
    "static",
]
