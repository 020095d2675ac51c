"""The tiles that XLA chooses on a TPU, by element type and second-minor size."""

from __future__ import annotations

from collections.abc import Sequence

from hardware.layouts.xla.tiling import Tile
from hardware.layouts.xla.types import type_bits

LANES, SUBLANES = 128, 8


def matrix_tiles(bits: int, second_minor: int, *, packed_booleans: bool = False) -> tuple[Tile, ...]:
    """The tiles of an array of at least two dimensions.

    8 x 128 words; compact 2 x 128 or 4 x 128 where the second-minor size is no more; types of less than 32 bits
    put as many rows as share a word together. `packed_booleans`: 1 bit each, in (32,128)(32,1). Source: the XLA
    tiled layout, examples of formats.
    """
    if packed_booleans:
        return ((32, LANES), (32, 1))
    together = max(1, 32 // bits)
    rows = next((n for n in (2, 4) if second_minor <= n), SUBLANES)
    first: Tile = (max(rows, together), LANES)
    return (first, (together, 1)) if together > 1 else (first,)


def vector_tiles(bits: int, size: int) -> tuple[Tile, ...]:
    """The tiles of a vector or a scalar: whole lanes of words, up to one register of 1,024 elements."""
    together = max(1, 32 // bits)
    length = LANES * together
    while length < min(size, LANES * SUBLANES):
        length *= 2
    return ((length,), (LANES,), (together, 1)) if together > 1 else ((length,),)


def default_tiles(dtype: str, physical_dims: Sequence[int]) -> tuple[Tile, ...]:
    """What a TPU chooses for an array whose sizes are `physical_dims`, the most major first."""
    bits = type_bits(dtype)
    if len(physical_dims) < 2:
        return vector_tiles(bits, physical_dims[-1] if physical_dims else 1)
    return matrix_tiles(bits, physical_dims[-2])
