"""Native storage of tensors on a device: the candidate dimension orders, and the bytes that each one takes.

Cost model and simulator both identify a stored tensor by a dimension order's text
(`hardware.layouts.dimension_order`); a device's native layout cuts it into tiles. Sizes here are closed formulas over
arrays of shapes; `bind` gives the layout in its own notation, which packs real elements. Tests check that the two
agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tapestry.hardware.layouts.dimension_order import (
    DimensionOrder,
    dimension_order_of,
    parse_dimension_order,
)
from tapestry.hardware.layouts.layout import LayoutError
from tapestry.teg.dtypes import item_bytes
from tapestry.teg.sharding.host import HOST

Counts = NDArray[np.int64]
DIMENSION_ORDERS_PER_TENSOR = 4  # orders offered per tensor, the program's included
LONGEST_JOIN = 3  # dimensions that one tile axis runs through


@dataclass(frozen=True)
class Native:
    """A device's own layout: `tiles(rows, columns, item)` rounds arrays of rows and columns up to whole tiles.

    If `tiles` is None, elements are stored one after another and every dimension order takes the same bytes.
    """

    name: str
    tiles: Callable[[Counts | None, Counts, int], Counts] | None = None


def _xla_tiles(rows: Counts | None, columns: Counts, item: int) -> Counts:
    """Count the elements of whole tiles of 128 lanes. Source: the XLA tiled layout."""
    height, width = _xla_tiles_of(rows, columns, item)
    lanes = _rounded(columns, width)
    return lanes if rows is None else _rounded(rows, height) * lanes


def _xla_tiles_of(rows: Counts | None, columns: Counts, item: int) -> tuple[Counts, Counts]:
    """Return the rows and columns of the tiles that XLA chooses on a TPU for parts; `rows` are None for vectors.

    Vectors are stored in tiles of up to 1,024. Rows come in tiles of 8, or compact ones of 2 or 4 where there are no
    more; types of less than 32 bits share words between rows, so their tiles have at least as many as share one.
    """
    packed = max(1, 4 // item)
    if rows is None:
        length = 2 ** np.ceil(np.log2(np.maximum(columns, 1))).astype(np.int64)
        return np.ones_like(columns), np.clip(length, 128 * packed, 1024)
    return np.maximum(np.select([rows <= 2, rows <= 4], [2, 4], 8), packed), np.full_like(columns, 128)


def tt_height(rows: int) -> int:
    """Round a number of rows up to whole 32 x 32 tiles."""
    return -(-rows // 32) * 32


def _tt_tiles(rows: Counts | None, columns: Counts, item: int) -> Counts:
    """Count the elements of whole 32 x 32 tiles; a vector is one row of them. Source: ttnn's tile layout."""
    return _rounded(np.ones_like(columns) if rows is None else rows, 32) * _rounded(columns, 32)


def _rounded(count: Counts, step: Counts | int) -> Counts:
    rounded: Counts = -(-count // step) * step
    return rounded


ROW_MAJOR = Native("row_major")
NATIVES: tuple[Native, ...] = (ROW_MAJOR, Native("xla_tiled", _xla_tiles), Native("tt_tile", _tt_tiles))


def native_named(name: str) -> Native:
    """Return the native layout called `name`, as device files name it.

    Raises:
        LayoutError: there is none of that name.
    """
    for native in NATIVES:
        if native.name == name:
            return native
    raise LayoutError(f"unknown native layout {name!r}; known are {', '.join(n.name for n in NATIVES)}")


def stored_bytes(native: Native, dimension_order: str, shapes: Counts, dtype: str) -> Counts:
    """Compute the bytes of parts of `shapes` `(..., rank)` of a tensor in a dimension order, padded, `(...)`.

    What lies on the host takes none of the device's.
    """
    item, rank = item_bytes(dtype), shapes.shape[-1]
    elements = np.prod(shapes, axis=-1, dtype=np.int64)
    if dimension_order == HOST:
        return np.zeros_like(elements)
    if native.tiles is None:
        plain: Counts = elements * item
        return plain
    groups = parse_dimension_order(dimension_order, rank)
    columns = np.prod(shapes[..., list(groups.columns)], axis=-1, dtype=np.int64)
    rows = np.prod(shapes[..., list(groups.rows)], axis=-1, dtype=np.int64) if groups.rows else None
    outside = np.prod(shapes[..., list(groups.outside)], axis=-1, dtype=np.int64)
    tiles: Counts = native.tiles(rows, columns, item)
    stored: Counts = np.where(elements == 0, 0, outside * tiles) * item
    return stored


def accessed_bytes(moved: Counts, stored: Counts, logical: Counts) -> Counts:
    """Scale `moved` logical bytes of a part that takes `stored` bytes for `logical` ones to the bytes behind them."""
    share = np.where(logical > 0, stored / np.maximum(logical, 1), 1.0)
    scaled: Counts = np.where(moved == logical, stored, np.ceil(moved * share).astype(np.int64))
    return scaled


@lru_cache(maxsize=16384)
def candidate_dimension_orders(native: Native, shape: tuple[int, ...], dtype: str) -> tuple[str, ...]:
    """List a tensor's candidate dimension orders: the program's first, then those that take less, least padded first.

    Rows and columns may each run through up to three neighboring dimensions; of orders that take the same, the
    one with fewer joins and the later dimension along the columns comes first.
    """
    large = [d for d, n in enumerate(shape) if n > 1]
    if native.tiles is None or not large:
        return ("",)
    runs = [
        tuple(reversed(large[i:j]))
        for i in range(len(large))
        for j in range(i + 1, min(i + LONGEST_JOIN, len(large)) + 1)
    ]
    sizes = np.array(shape, dtype=np.int64)
    found: dict[str, tuple[int, int, tuple[int, ...]]] = {}
    for columns, rows in product(runs, [(), *runs]):
        if set(columns) & set(rows) or (not rows and len(large) > len(columns)):
            continue
        order = canonical_dimension_order(dimension_order_of(len(shape), columns, rows), shape)
        text = str(order)
        size = int(stored_bytes(native, text, sizes, dtype))
        found[text] = (size, len(columns) + len(rows), tuple(-d for d in (*columns, *rows)))
    found.pop("", None)
    ranked = sorted(found, key=lambda text: found[text])
    least = int(stored_bytes(native, "", sizes, dtype))
    chosen = [text for text in ranked if found[text][0] <= least]
    return ("", *_distinct_columns(chosen, len(shape))[: DIMENSION_ORDERS_PER_TENSOR - 1])


def canonical_dimension_order(order: DimensionOrder, shape: Sequence[int]) -> DimensionOrder:
    """Return an order with rows even where all but one dimension are of size 1: one of those then makes the rows."""
    if len(order.groups) > 1 or len(order.columns) == len(shape):
        return order
    spare = max(d for d in range(len(shape)) if d not in order.columns)
    return dimension_order_of(len(shape), order.columns, (spare,))


def _distinct_columns(texts: Sequence[str], rank: int) -> list[str]:
    """Sort the best dimension order of every choice of columns first, then the others."""
    seen: set[tuple[int, ...]] = set()
    first: list[str] = []
    later: list[str] = []
    for text in texts:
        columns = parse_dimension_order(text, rank).columns
        (later if columns in seen else first).append(text)
        seen.add(columns)
    return first + later
