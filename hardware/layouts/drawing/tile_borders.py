"""Borders of tiles, where a layout's map stops being linear, and the rows and columns at these borders."""

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.layout import Indices, Mask

PLAIN, INNER, OUTER, BUFFER = 0, 1, 2, 3
"""No border; the most frequent kind of border (a tile's or a face's); a rarer one around it; between buffers."""

MOST_KINDS = 8
"""A map with more kinds of steps than this is scattered (a swizzle): it has no tiles to show."""


def tile_borders(offsets: Indices, buffers: Indices, axis: int) -> NDArray[np.int8]:
    """Find the border before each cell (rows, columns) along an axis; the first ones have none.

    Neighbors inside a tile are the same step apart everywhere, and that step is the most frequent one.
    """
    steps, changes = np.diff(offsets, axis=axis), np.diff(buffers, axis=axis) != 0
    found = np.zeros(offsets.shape, dtype=np.int8)
    inside = found[1:, :] if axis == 0 else found[:, 1:]
    kinds, counts = np.unique(steps[~changes], return_counts=True)
    order = np.lexsort((np.abs(kinds), -counts))
    if 1 < len(kinds) <= MOST_KINDS:
        inside[...] = OUTER
        inside[steps == kinds[order[0]]] = PLAIN
        inside[steps == kinds[order[1]]] = INNER
    inside[changes] = BUFFER
    return found


def border_rows(borders: NDArray[np.int8], real: Mask, axis: int) -> Mask:
    """Find the rows or columns (n,) before which something begins: a tile, a buffer, or padding."""
    other = 1 - axis
    begins = borders > PLAIN
    changes = np.diff(real, axis=axis)
    starts: Mask = np.logical_or.reduce(begins, axis=other)
    starts[1:] |= np.logical_or.reduce(changes, axis=other)
    return starts


def kept(starts: Mask, most: int) -> tuple[Indices, bool]:
    """Select indices (k,) of at most `most` rows or columns: all, or those at the edges of tiles, buffers or padding.

    If these are too many, the first of them and the last one, and True.
    """
    count = len(starts)
    if count <= most:
        return np.arange(count), False
    shown = starts.copy()
    shown[:-1] |= starts[1:]
    shown[[0, 1, -1]] = True
    found = np.flatnonzero(shown)
    return (found, False) if len(found) <= most else (np.append(found[: most - 1], count - 1), True)
