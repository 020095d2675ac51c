"""The tiles that XLA's TPU compiler gives arrays by default.

Registers hold 8 x 128 values of 32 bits. Narrower elements are packed, as many as 32 bits hold, from rows of the same
column: `(2,1)` for 16 bits, `(4,1)` for 8, `(8,1)` for 4. An array of few rows gets a tile of 2 or 4 rows, but never
fewer than are packed together. Source: openxla/xla:docs/tiled_layout.md, "Examples of tiling formats"; for scalars,
vectors and 4-bit elements the layouts in TPU programs of XLA's own tests (`bf16[]{:T(256)}`,
`pred[]{:T(512)}`, `bf16[4096]{0:T(1024)(128)(2,1)}`, `s4[...]{...:T(8,128)(8,1)E(4)}`).
"""

from collections.abc import Sequence
from functools import lru_cache

from tapestry.hardware.layouts.layout import LayoutError
from tapestry.hardware.layouts.xla.primitives import primitive_named
from tapestry.hardware.layouts.xla.tile import Tile

LANES = 128
SUBLANES = 8
WORD_BITS = 32
ONE_BIT_TILES: tuple[Tile, ...] = ((32, LANES), (32, 1))
"""One bit per `pred`, which TPUs do not do today: they store a byte (docs, format 6)."""


@lru_cache(maxsize=4096)
def default_tpu_tiles(dtype: str, second_minor_size: int, one_bit: bool = False) -> tuple[Tile, ...]:
    """Return the tiles of an array of rank two or more, by element type and its second most minor dimension's size.

    `one_bit` requests the packed format of `pred`. Raises `LayoutError` for an unknown type or a negative size.
    """
    primitive = primitive_named(dtype)
    if second_minor_size < 0:
        raise LayoutError(f"a second most minor size of {second_minor_size} is negative; expected at least 0")
    if one_bit and primitive.kind == "p":
        return ONE_BIT_TILES
    packed = _packed(dtype)
    rows = next((few for few in (2, 4) if second_minor_size <= few), SUBLANES)
    tile = (max(rows, packed), LANES)
    return (tile, (packed, 1)) if packed > 1 else (tile,)


def default_tiles(
    shape: Sequence[int], dtype: str, minor_to_major: Sequence[int] | None = None
) -> tuple[Tile, ...]:
    """Return the default tiles of a whole shape: scalars and vectors get one-dimensional ones.

    A vector's tile is the power of two that holds it, between a packed row of lanes and a register (1024).
    """
    if len(shape) >= 2:
        second = shape[minor_to_major[1]] if minor_to_major is not None else shape[-2]
        return default_tpu_tiles(dtype, second)
    packed, length = _packed(dtype), shape[0] if shape else 1
    tile = min(SUBLANES * LANES, max(LANES * packed, 1 << (max(length, 1) - 1).bit_length()))
    if not shape or packed == 1:
        return ((tile,),)
    return ((tile,), (LANES,), (packed, 1))


def _packed(dtype: str) -> int:
    """Return the number of elements that share a word of 32 bits."""
    primitive = primitive_named(dtype)
    bits = 8 if primitive.kind == "p" else primitive.bits
    return max(1, WORD_BITS // bits)
