"""One tile of a layout: sizes of dimensions, `*` for a dimension that is joined to the next more minor one.

Source: openxla/xla:xla/layout.h (Tile) and docs/tiled_layout.md.
"""

from collections.abc import Sequence

from tapestry.hardware.layouts.layout import LayoutError

COMBINE = -(2**63)
"""The number that XLA stores for `*` (Tile::kCombineDimension, the least int64)."""

Tile = tuple[int, ...]
"""The sizes of one tile, most major first; `COMBINE` stands for `*`."""


def tile_text(tile: Tile) -> str:
    """Format a tile as XLA prints it, `(2,*,128)`; a negative size without a meaning is `Invalid value -2`."""
    return f"({','.join(map(_size_text, tile))})"


def tile_of(sizes: Sequence[int | str]) -> Tile:
    """Build a tile from sizes in which `*` is written as such."""
    return tuple(COMBINE if size == "*" else int(size) for size in sizes)


def starred(tile: Tile) -> list[int | str]:
    """Return the sizes with `*` written as such: the inverse of `tile_of`."""
    return ["*" if size == COMBINE else size for size in tile]


def check_tile(tile: Tile) -> None:
    """Raise `LayoutError` if a tile cannot be applied to anything; negative sizes in XLA's words (MakeLayout)."""
    for size in tile:
        if size < 0 and size != COMBINE:
            raise LayoutError(
                "Tile dimension size needs to be minimum int64_t value if it's negative. "
                f"Value is {size}; write '*' to combine a dimension with the next more minor one"
            )
        if size == 0:
            raise LayoutError(f"tile {tile_text(tile)} has a dimension of size 0; expected at least 1")
    if tile and tile[-1] == COMBINE:
        raise LayoutError(
            f"tile {tile_text(tile)} ends in '*', but its most minor dimension has no more minor one to join"
        )


def _size_text(size: int) -> str:
    return "*" if size == COMBINE else str(size) if size >= 0 else f"Invalid value {size}"
