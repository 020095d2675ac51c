"""Comparison of CuTe layouts as functions: layouts of one meaning may be written in several ways."""

from __future__ import annotations

from tapestry.hardware.layouts.cute.basis import Term, as_coordinate
from tapestry.hardware.layouts.cute.integers import number
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tuples import each_leaf, integer
from tapestry.hardware.layouts.layout import LayoutError


def same_function(a: Strided, b: Strided) -> bool:
    """Return whether two layouts have one size and one image at every one-dimensional coordinate."""
    sizes = _count(a), _count(b)
    return sizes[0] == sizes[1] and all(_plain(a(k)) == _plain(b(k)) for k in range(sizes[0]))


def _plain(image: Term) -> Term:
    """Convert an image to plain integers, without the difference of static and dynamic ones."""
    return each_leaf(as_coordinate(image), lambda leaf: number(integer(leaf)))


def _count(layout: Strided) -> int:
    size = number(layout.size)
    if size > 1 << 22:
        raise LayoutError(f"expected at most 2^22 coordinates to compare, not {size}")
    return size
