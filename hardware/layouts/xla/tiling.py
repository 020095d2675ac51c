"""Tiles: how each one cuts the bounds it meets, and where an index goes.

A tile covers the most minor bounds, of which leading ones are missing (1) where it is longer. `COMBINE` in a tile
joins a bound to the next more minor one, the most major first, so chains fold into one. Then every covered bound
`d` under `t` becomes `ceil(d / t)` tiles, and the tile's own bounds follow as the new most minor ones; the next
tile meets those, and reaches across them where it is longer than the one before.

Source: XLA, tiled layout; `LayoutUtil::LinearIndex` looks at the first tile only (`first_tile_index`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from hardware.layouts.layout import Indices, LayoutError, Mask

COMBINE = -(2**63)
"""XLA's `kCombineDimension`: written `*`."""

Tile = tuple[int, ...]
Bounds = tuple[int, ...]


@dataclass(frozen=True)
class Cut:
    """One tile on `bounds`: `joined` lists the bounds that run together (ranges of positions), `tile` what covers
    the last of `combined`, and `result` is what the next tile meets.
    """

    bounds: Bounds
    joined: tuple[tuple[int, int], ...]
    combined: Bounds
    tile: Bounds
    result: Bounds

    @property
    def kept(self) -> int:
        """How many combined bounds the tile does not cover."""
        return len(self.combined) - len(self.tile)

    @property
    def padded(self) -> Bounds:
        """The combined bounds, those that are covered rounded up to whole tiles."""
        covered = (-(-d // t) * t for d, t in zip(self.combined[self.kept :], self.tile, strict=True))
        return (*self.combined[: self.kept], *covered)

    @property
    def split(self) -> Bounds:
        """The padded bounds with every covered one as (tiles, within a tile)."""
        covered = (
            part for d, t in zip(self.padded[self.kept :], self.tile, strict=True) for part in (d // t, t)
        )
        return (*self.combined[: self.kept], *covered)

    @property
    def permutation(self) -> tuple[int, ...]:
        """The transposition of `split` that moves what is within a tile to the end."""
        n = len(self.tile)
        outer = (self.kept + 2 * k for k in range(n))
        return (*range(self.kept), *outer, *(self.kept + 2 * k + 1 for k in range(n)))


@lru_cache(maxsize=65536)
def cut(bounds: Bounds, tile: Tile) -> Cut:
    """What a tile makes of bounds."""
    bounds = (1,) * (len(tile) - len(bounds)) + bounds
    start = len(bounds) - len(tile)
    joined, sizes = [(k, k + 1) for k in range(start)], []
    first = start
    for k, size in enumerate(tile, start):
        if size == COMBINE:
            continue
        joined.append((first, k + 1))
        sizes.append(size)
        first = k + 1
    combined = tuple(prod(bounds[a:b]) for a, b in joined)
    covered = combined[start:]
    tiles = tuple(-(-d // t) for d, t in zip(covered, sizes, strict=True))
    return Cut(bounds, tuple(joined), combined, tuple(sizes), (*combined[:start], *tiles, *sizes))


@lru_cache(maxsize=65536)
def cuts(bounds: Bounds, tiles: tuple[Tile, ...]) -> tuple[Cut, ...]:
    """What tiles make of bounds, one after the other."""
    steps: list[Cut] = []
    for tile in tiles:
        steps.append(cut(steps[-1].result if steps else bounds, tile))
    return tuple(steps)


def final_bounds(bounds: Bounds, tiles: tuple[Tile, ...]) -> Bounds:
    """The bounds after all tiles; their product is the storage in elements."""
    steps = cuts(bounds, tiles)
    return steps[-1].result if steps else bounds


def check_tile(tile: Tile) -> None:
    """Refuse a tile that means nothing.

    Raises:
        LayoutError: a size is not positive, or the last bound would be joined to nothing.
    """
    for size in tile:
        if size <= 0 and size != COMBINE:
            raise LayoutError(
                f"Invalid value {size} in tile {tile_text(tile)}; expected a positive size or *"
            )
    if tile and tile[-1] == COMBINE:
        raise LayoutError(
            f"tile {tile_text(tile)} ends in *; expected a size, since * joins the next more minor"
        )


def tile_text(tile: Tile) -> str:
    """A tile as XLA prints it: `(8,*,128)`."""

    def one(size: int) -> str:
        return "*" if size == COMBINE else str(size) if size >= 0 else f"Invalid value {size}"

    return "(" + ",".join(map(one, tile)) + ")"


def tiled_index(index: Sequence[Indices], steps: Sequence[Cut]) -> list[Indices]:
    """The index in the final bounds of an index in the first ones; arrays of one shape, one per bound."""
    digits = list(index)
    for step in steps:
        joined = joined_index(digits, step)
        covered = list(zip(joined[step.kept :], step.tile, strict=True))
        digits = [*joined[: step.kept], *(c // t for c, t in covered), *(c % t for c, t in covered)]
    return digits


def joined_index(index: Sequence[Indices], step: Cut) -> list[Indices]:
    """The index in the bounds that a tile covers once those it joins run together."""
    zero = np.zeros_like(index[0]) if index else np.zeros(1, dtype=np.int64)
    digits = [zero] * (len(step.bounds) - len(index)) + list(index)
    return [_joined(digits[a:b], step.bounds[a:b]) for a, b in step.joined]


def _joined(digits: Sequence[Indices], bounds: Sequence[int]) -> Indices:
    total = digits[0]
    for digit, bound in zip(digits[1:], bounds[1:], strict=True):
        total = total * bound + digit
    return total


def untiled_index(final: Sequence[Indices], steps: Sequence[Cut], rank: int) -> tuple[list[Indices], Mask]:
    """The inverse of `tiled_index` for `rank` first bounds, and a mask that is False on padding."""
    digits = list(final)
    real = np.ones(digits[0].shape if digits else (1,), dtype=bool)
    for step in reversed(steps):
        n = len(step.tile)
        outer, inner = digits[step.kept : step.kept + n], digits[step.kept + n :]
        covered = [o * t + i for o, i, t in zip(outer, inner, step.tile, strict=True)]
        combined = [*digits[: step.kept], *covered]
        for digit, bound in zip(combined, step.combined, strict=True):
            real &= digit < bound
        digits = []
        for digit, (a, b) in zip(combined, step.joined, strict=True):
            digits.extend(_parted(digit, step.bounds[a:b]))
    return digits[len(digits) - rank :], real


def _parted(digit: Indices, bounds: Sequence[int]) -> list[Indices]:
    parts = []
    for bound in reversed(bounds[1:]):
        parts.append(digit % max(bound, 1))
        digit = digit // max(bound, 1)
    return [digit, *reversed(parts)]


def linear_index(index: Sequence[int], bounds: Sequence[int]) -> int:
    """The position of an index in bounds laid out major to minor."""
    total = 0
    for e, d in zip(index, bounds, strict=True):
        total = total * d + e
    return total


def first_tile_index(index: Sequence[int], bounds: Bounds, tiles: tuple[Tile, ...]) -> int:
    """The position that `LayoutUtil::LinearIndex` gives to a physical index (major to minor).

    It looks at the first tile only, ignores tiles of vectors and gives 0 for scalars; `*` means nothing to it.

    Raises:
        LayoutError: the first tile joins bounds.
    """
    if len(bounds) <= 1 or not tiles:
        return linear_index(index, bounds)
    if COMBINE in tiles[0]:
        raise LayoutError(f"LayoutUtil::LinearIndex does not join bounds, as tile {tile_text(tiles[0])} does")
    outer = prod(tiles[0])
    total, inner = 0, 1
    for k, (e, d) in enumerate(zip(reversed(index), reversed(bounds), strict=True)):
        if k < len(tiles[0]):
            t = tiles[0][-1 - k]
            total += outer * (e // t) + inner * (e % t)
            outer, inner = outer * -(-d // t), inner * t
        else:
            total += e * outer
            outer *= d
    return total
