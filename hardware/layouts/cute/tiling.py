"""Division of a layout by a tile, and repetition of a tile: logical, zipped, tiled, flat, blocked and raked.

Source: NVIDIA/cutlass include/cute/layout.hpp and media/docs/cpp/cute/02_layout_algebra.md.
"""

from tapestry.hardware.layouts.cute.algebra import Tiler, by_mode, coalesce, complement, composition
from tapestry.hardware.layouts.cute.basis import Term, text
from tapestry.hardware.layouts.cute.integers import multiplied, number
from tapestry.hardware.layouts.cute.strided import Strided, columnwise, extended, joined, ordered
from tapestry.hardware.layouts.cute.tuples import (
    Underscore,
    ceil_div,
    integer,
    product,
    wrapped,
    zipped,
    zipped_by,
)
from tapestry.hardware.layouts.layout import LayoutError


def logical_divide(layout: Strided, tiler: Tiler) -> Strided:
    """Divide the layout into (tile, rest): the tiler's elements, and their repetition; a tuple divides mode by mode."""
    if isinstance(tiler, tuple):
        return by_mode(layout, tiler, logical_divide)
    if isinstance(tiler, Underscore):
        return layout
    tile = _layout(tiler)
    return composition(layout, joined((tile, complement(tile, coalesce(layout).shape))))


def zipped_divide(layout: Strided, tiler: Tiler) -> Strided:
    """Compute `logical_divide` with all tiles in the first mode and all rests in the second."""
    return _unzipped(logical_divide(layout, tiler), tiler)


def tiled_divide(layout: Strided, tiler: Tiler) -> Strided:
    """Compute `zipped_divide` with the rests as modes of their own."""
    return _opened(zipped_divide(layout, tiler), first=False)


def flat_divide(layout: Strided, tiler: Tiler) -> Strided:
    """Compute `zipped_divide` with tiles and rests as modes of their own."""
    return _opened(zipped_divide(layout, tiler), first=True)


def logical_product(block: Strided, tiler: Tiler) -> Strided:
    """Compute the block and its repetition by the tiler; a tuple multiplies mode by mode."""
    if isinstance(tiler, tuple):
        return by_mode(block, tiler, logical_product)
    if isinstance(tiler, Underscore):
        return block
    tile = _layout(tiler)
    free = complement(block, multiplied(block.size, tile.cosize))
    return joined((block, composition(free, tile)))


def zipped_product(block: Strided, tiler: Tiler) -> Strided:
    """Compute `logical_product` with all blocks in the first mode and all repetitions in the second."""
    return _unzipped(logical_product(block, tiler), tiler)


def tiled_product(block: Strided, tiler: Tiler) -> Strided:
    """Compute `zipped_product` with the repetitions as modes of their own."""
    return _opened(zipped_product(block, tiler), first=False)


def flat_product(block: Strided, tiler: Tiler) -> Strided:
    """Compute `zipped_product` with blocks and repetitions as modes of their own."""
    return _opened(zipped_product(block, tiler), first=True)


def blocked_product(block: Strided, tiler: Strided) -> Strided:
    """Repeat the block so that each mode runs through the block first: ((block, tiler), ...)."""
    inner, outer = _paired_product(block, tiler)
    return _zipped(inner, outer)


def raked_product(block: Strided, tiler: Strided) -> Strided:
    """Repeat and interleave the block, each mode through the tiler first: ((tiler, block), ...)."""
    inner, outer = _paired_product(block, tiler)
    return _zipped(outer, inner)


def tile_to_shape(block: Strided, target: Term, order: Term | None = None) -> Strided:
    """Repeat the block to fill a target shape, modes of lower `order` first (the first mode by default).

    Raises `LayoutError` if the block has more modes or its extents do not divide the target's.
    """
    modes = wrapped(target)
    if block.rank > len(modes):
        raise LayoutError(f"Rank of layout must be <= rank of target shape: {block} and {text(target)}")
    padded = extended(block, len(modes))
    have, want = tuple(map(product, wrapped(padded.shape))), tuple(map(product, modes))
    if any(number(w) % number(h) for h, w in zip(have, want, strict=True)):
        raise LayoutError(
            f"tile_to_shape: block shape does not divide the target shape: {text(have)} and {text(want)}"
        )
    repeats = ceil_div(want, have)
    return blocked_product(padded, columnwise(repeats) if order is None else ordered(repeats, order))


def _layout(tiler: Tiler) -> Strided:
    return tiler if isinstance(tiler, Strided) else columnwise(integer(tiler))


def _unzipped(layout: Strided, tiler: Tiler) -> Strided:
    return Strided(zipped_by(layout.shape, tiler), zipped_by(layout.stride, tiler))


def _opened(layout: Strided, first: bool) -> Strided:
    return Strided(_spread(layout.shape, first), _spread(layout.stride, first))


def _spread(term: Term, first: bool) -> Term:
    tile, rest = wrapped(term)
    return (*(_parts(tile) if first else (tile,)), *_parts(rest))


def _parts(term: Term) -> tuple[Term, ...]:
    """Return the modes of a term; a single mode stays as it is, wrapped or not, as `_` keeps it in a slice."""
    return term if isinstance(term, tuple) and len(term) != 1 else (term,)


def _paired_product(block: Strided, tiler: Strided) -> tuple[Strided, Strided]:
    length = max(block.rank, tiler.rank)
    inner, outer = logical_product(extended(block, length), extended(tiler, length)).modes
    return inner, outer


def _zipped(a: Strided, b: Strided) -> Strided:
    shape, stride = zipped((a.shape, b.shape)), zipped((a.stride, b.stride))
    return Strided(shape, stride)
