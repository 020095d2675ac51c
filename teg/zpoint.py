"""Points of discrete spaces: the partial order by dominance, and dimensions added, reordered and named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

ZPoint = tuple[int, ...]
T = TypeVar("T")

DIMENSION_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def leq(a: ZPoint, b: ZPoint) -> bool:
    """Return whether no coordinate of `a` exceeds that of `b`.

    Raises:
        ValueError: the points have different ranks.
    """
    return all(x <= y for x, y in zip(a, b, strict=True))


def dominance(a: ZPoint, b: ZPoint) -> str:
    """Compare two points in every coordinate: "equal", "less", "greater" or "incomparable".

    Raises:
        ValueError: the points have different ranks.
    """
    below, above = leq(a, b), leq(b, a)
    if below and above:
        return "equal"
    return "less" if below else "greater" if above else "incomparable"


def resolved_axis(axis: int, rank: int) -> int:
    """Return `axis` counted from the front.

    Raises:
        ValueError: it lies outside a space of this rank.
    """
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} lies outside a space of rank {rank}")
    return axis % rank


def permuted(values: Sequence[T], order: Sequence[int]) -> tuple[T, ...]:
    """Return the values in another order, as `numpy.transpose` orders axes.

    Raises:
        ValueError: the order does not name every position once.
    """
    axes = [resolved_axis(k, len(values)) for k in order]
    if sorted(axes) != list(range(len(values))):
        raise ValueError(f"an order names each of {len(values)} dimensions once, not {list(order)}")
    return tuple(values[k] for k in axes)


def with_dims(point: ZPoint, axis: int, count: int) -> ZPoint:
    """Insert `count` zeros before `axis` of a point; -1 is behind the last coordinate.

    Raises:
        ValueError: the axis lies outside the new places, or the count is negative.
    """
    if count < 0:
        raise ValueError(f"the number of new dimensions is 0 or more, not {count}")
    axis = resolved_axis(axis, len(point) + 1)
    return (*point[:axis], *(0,) * count, *point[axis:])


@dataclass(frozen=True)
class DimensionMap:
    """The names of the dimensions of a space, in order.

    Raises:
        ValueError: a name that is no identifier, or one that occurs twice.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        for name in self.names:
            if not DIMENSION_NAME.fullmatch(name):
                raise ValueError(f"{name!r} names no dimension: use a letter, then letters, digits and _")
        if len(set(self.names)) != len(self.names):
            raise ValueError(f"dimensions must have different names, not {list(self.names)}")

    def index_of(self, name: str) -> int:
        """Return the position of a dimension.

        Raises:
            ValueError: there is none of this name.
        """
        if name not in self.names:
            raise ValueError(f"there is no dimension {name!r} among {list(self.names)}")
        return self.names.index(name)

    def permute(self, order: Sequence[int]) -> DimensionMap:
        """Return the names in another order."""
        return DimensionMap(permuted(self.names, order))

    def order_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the order in which `names` lists the dimensions.

        Raises:
            ValueError: it does not list each of them once.
        """
        order = tuple(self.index_of(name) for name in names)
        permuted(self.names, order)
        return order
