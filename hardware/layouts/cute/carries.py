"""A check that composition mode by mode is that of the functions: no sum of B's modes carries across A's extents."""

from tapestry.hardware.layouts.cute.basis import Term, as_coordinate
from tapestry.hardware.layouts.cute.integers import Static, number
from tapestry.hardware.layouts.cute.strided import Strided
from tapestry.hardware.layouts.cute.tuples import each_leaf, integer, leaves
from tapestry.hardware.layouts.layout import LayoutError

MOST_CHECKED = 1 << 12


def check_carries(a: Strided, b: Strided, found: Strided) -> None:
    """Raise `LayoutError` unless `found` is A(B(c)) everywhere; `a` is flat, integers count by value, static or not.

    Where divisibility does not show it, up to `MOST_CHECKED` coordinates are compared; larger layouts are trusted.
    """
    steps = leaves(b.stride)
    if not isinstance(a.shape, tuple) or not all(isinstance(step, int | Static) for step in steps):
        return
    modes = [(number(integer(d)), number(integer(s))) for s, d in zip(leaves(b.shape), steps, strict=True)]
    extents = [number(integer(extent)) for extent in leaves(a.shape)]
    if _divisible(extents, modes) or number(b.size) > MOST_CHECKED:
        return
    size = number(b.size)
    if number(found.size) != size or any(_plain(found(k)) != _plain(a(b(k))) for k in range(size)):
        raise LayoutError(
            f"Stride Divisibility Condition: the strides of {b} carry across the extents of {a}"
        )


def _divisible(extents: list[int], modes: list[tuple[int, int]]) -> bool:
    """Return whether modes (stride, extent) nest in each other and each splits A's extents without remainder.

    Then, at any product E of leading extents, modes of larger strides are multiples of E, and those of smaller ones
    stay below E together: nothing carries.
    """
    reach = 1
    for stride, extent in sorted(mode for mode in modes if mode[1] != 1 and mode[0] != 0):
        if stride < 0 or stride % reach or not _splits(extents, stride, extent):
            return False
        reach = stride * extent
    return True


def _splits(extents: list[int], step: int, rest: int) -> bool:
    for extent in extents[:-1]:
        if extent < 1 or max(step, extent) % min(step, extent):
            return False
        if step >= extent:
            step //= extent
        else:
            taken = min(extent // step, rest)
            if rest % taken:
                return False
            rest, step = rest // taken, 1
    return True


def _plain(image: Term) -> Term:
    """Convert an image to plain integers, without the difference of static and dynamic ones."""
    return each_leaf(as_coordinate(image), lambda leaf: number(integer(leaf)))
