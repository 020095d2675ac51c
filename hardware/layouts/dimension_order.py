"""The dimension order of a tensor in a device's memory, apart from the tiles it is cut into.

Written minor to major like XLA's layouts, with `*` between dimensions that run on as one: `{3*2,1,0}` puts dimension
3 along the columns of a tile, wrapping into dimension 2, dimension 1 along its rows, and dimension 0 outside. The
empty text is the dimension order of the program, the last dimension most minor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from tapestry.hardware.layouts.layout import LayoutError

_ORDER = re.compile(r"\{([0-9]{1,4}(?:[*,][0-9]{1,4})*)?\}")


@dataclass(frozen=True)
class DimensionOrder:
    """Groups of dimensions, minor to major, and minor to major within each: columns, rows, then everything outside."""

    groups: tuple[tuple[int, ...], ...]

    @property
    def columns(self) -> tuple[int, ...]:
        """The dimensions along the columns of a tile, the most minor first."""
        return self.groups[0] if self.groups else ()

    @property
    def rows(self) -> tuple[int, ...]:
        """The dimensions along the rows of a tile, the most minor first."""
        return self.groups[1] if len(self.groups) > 1 else ()

    @property
    def outside(self) -> tuple[int, ...]:
        """All other dimensions, the most minor first."""
        return tuple(d for group in self.groups[2:] for d in group)

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """All dimensions, the most minor first."""
        return tuple(d for group in self.groups for d in group)

    def __str__(self) -> str:
        """Return the dimension order's text; empty for the dimension order of the program."""
        if self == row_major_order(len(self.minor_to_major)):
            return ""
        return "{" + ",".join("*".join(map(str, group)) for group in self.groups) + "}"


def row_major_order(rank: int) -> DimensionOrder:
    """Return the dimension order with the last dimension most minor, each on its own."""
    return DimensionOrder(tuple((d,) for d in reversed(range(rank))))


def dimension_order_of(rank: int, columns: Sequence[int], rows: Sequence[int]) -> DimensionOrder:
    """Build the order with these dimensions along columns and rows (minor to major), the others as in the program."""
    taken = {*columns, *rows}
    groups = [tuple(columns), tuple(rows), *((d,) for d in reversed(range(rank)) if d not in taken)]
    return DimensionOrder(tuple(g for g in groups if g))


@lru_cache(maxsize=65536)
def parse_dimension_order(text: str, rank: int) -> DimensionOrder:
    """Parse the text of a dimension order for a tensor of `rank` dimensions.

    Raises:
        LayoutError: the text is no order, or does not name every dimension once.
    """
    if not text:
        return row_major_order(rank)
    found = _ORDER.fullmatch(text)
    if found is None:
        raise LayoutError(f"{text[:80]!r} is no order of dimensions; expected a text such as '{{3*2,1,0}}'")
    groups = tuple(tuple(int(d) for d in group.split("*")) for group in (found[1] or "").split(",") if group)
    order = DimensionOrder(groups)
    if sorted(order.minor_to_major) != list(range(rank)):
        raise LayoutError(f"order {text!r} does not name each of the {rank} dimensions once")
    return order
