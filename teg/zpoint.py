"""Points of discrete spaces: the partial order by dominance, and dimensions added, reordered and named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TypeVar

ZPoint = tuple[int, ...]
T = TypeVar("T")

DIMENSION_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*")


def check_point(point: ZPoint, rank: int, space: str) -> None:
    """Raise an error unless `point` has one integer for each of the `rank` dimensions of a space, described by `space`.

    Raises:
        TypeError: it is no sequence of integers.
        ValueError: it has another number of coordinates.
    """
    if not _are(Integral, point):
        example = tuple(range(rank))
        raise TypeError(f"a point of {space} is a tuple of {rank} integers, like {example}, not {point!r}")
    if len(point) != rank:
        hint = f"give {rank} coordinates, one for each dimension"
        raise ValueError(f"{tuple(point)} has rank {len(point)}, but {space} has rank {rank}: {hint}")


def _are(kind: type, values: object) -> bool:
    """Return whether `values` is a sequence of values of a kind."""
    return isinstance(values, Sequence) and all(isinstance(value, kind) for value in values)


def leq(a: ZPoint, b: ZPoint) -> bool:
    """Return whether no coordinate of `a` exceeds that of `b`.

    Raises:
        ValueError: the points have different ranks.
    """
    if len(a) != len(b):
        raise ValueError(
            f"only points of equal rank are compared, not {a} of rank {len(a)} and {b} of rank {len(b)}"
        )
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
        TypeError: the order is no sequence of integers.
        ValueError: the order does not name every position once.
    """
    if not _are(Integral, order):
        raise TypeError(f"an order is a sequence of the positions 0 to {len(values) - 1}, not {order!r}")
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
        TypeError: the names are no sequence of texts.
        ValueError: a name that is no identifier, or one that occurs twice.
    """

    names: tuple[str, ...]

    def __post_init__(self) -> None:
        _check_names(self.names)
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
            TypeError: the names are no sequence of texts.
            ValueError: it does not list each of them once.
        """
        _check_names(names)
        order = tuple(self.index_of(name) for name in names)
        if sorted(order) != list(range(len(self.names))):
            raise ValueError(f"list each of the dimensions {list(self.names)} once, not {list(names)}")
        return order


def _check_names(names: Sequence[str]) -> None:
    """Raise an error unless `names` is a sequence of texts; a single text is no sequence of names."""
    if isinstance(names, str) or not _are(str, names):
        raise TypeError(
            f'names of dimensions are a sequence of texts, like ("batch", "height"), not {names!r}'
        )
