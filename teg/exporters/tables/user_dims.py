"""Conversion of splits between the factored dimensions that a plan stores and the dimensions that the user wrote."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.spec import WHOLE, Split, chunk_size


class InexpressibleSplit(ValueError):
    """Error raised where a split of factors is none of the dimension, or the other way round; says why."""


def factor_groups(shape: Sequence[int], stored: Sequence[int]) -> tuple[tuple[int, ...], ...] | None:
    """Return for each dimension of `shape` the dimensions of `stored` that are its factors, outermost first.

    Both hold the same elements row-major. None where a stored dimension spans a border of two dimensions.
    """
    if tuple(shape) == tuple(stored):
        return tuple((k,) for k in range(len(shape)))
    if 0 in shape:
        return None
    waiting = [k for k, n in enumerate(stored) if n != 1]
    groups = []
    for size in shape:
        own: list[int] = []
        while prod(stored[k] for k in own) < size and waiting:
            own.append(waiting.pop(0))
        if prod(stored[k] for k in own) != size:
            return None
        groups.append(tuple(own))
    return None if waiting else tuple(groups)


def joined_split(sizes: Sequence[int], splits: Sequence[Split], mesh_shape: MeshShape) -> Split:
    """Return the split of a dimension that splits its factors of `sizes`, outermost first.

    Raises:
        InexpressibleSplit: a device's elements are no single range of the dimension, or ranges differ in size.
    """
    if 0 in sizes:  # no elements, so nothing that could be split otherwise
        return next((split for split in splits if split.axes), WHOLE)
    axes: tuple[str, ...] = ()
    granule, inner = 1, prod(sizes)
    is_open = True  # every factor so far has one element per device
    for size, split in zip(sizes, splits, strict=True):
        inner //= size
        if not split.axes:
            is_open = is_open and size == 1
            continue
        parts = mesh_shape.size_of(split.axes)
        chunk = chunk_size(size, parts, split.granule)
        if not is_open:
            raise InexpressibleSplit(
                f"an inner factor of {size} is split and an outer one is not: a device holds several ranges"
            )
        if axes and chunk * parts != size:
            raise InexpressibleSplit(f"an inner factor of {size} is split into {parts} unequal parts")
        axes, granule = (*axes, *split.axes), split.granule * inner
        is_open = chunk == 1 and parts == size
    return Split(axes, granule) if axes else WHOLE


def factored_splits(sizes: Sequence[int], split: Split, mesh_shape: MeshShape) -> tuple[Split, ...]:
    """Return the splits of the factors of `sizes` that split their dimension so; inverse of `joined_split`.

    Raises:
        InexpressibleSplit: a chunk's border cuts an inner factor.
    """
    total = prod(sizes)
    if total == 0:
        return tuple(split if k == 0 else WHOLE for k in range(len(sizes)))
    chunk = chunk_size(total, mesh_shape.size_of(split.axes), split.granule)
    waiting, inner = list(split.axes), total
    found = []
    for size in sizes:
        inner //= size
        taken = _filling(waiting, size, mesh_shape)
        if taken < len(waiting):
            found.append(Split(tuple(waiting[:taken])))
        elif waiting:
            last = _last_split(tuple(waiting), size, inner, chunk, split.granule, mesh_shape)
            if any(own.axes for own in found) and chunk * mesh_shape.size_of(split.axes) != total:
                raise InexpressibleSplit(f"an inner factor of {size} is split into unequal parts")
            found.append(last)
        else:
            found.append(WHOLE)
            taken = 0
        waiting = waiting[taken:]
    return tuple(s if s.axes else WHOLE for s in found)


def _filling(axes: Sequence[str], size: int, mesh_shape: MeshShape) -> int:
    """Return how many of the leading axes have exactly `size` devices; all where no prefix has."""
    for count in range(len(axes)):
        if mesh_shape.size_of(axes[:count]) == size:
            return count
    return len(axes)


def _last_split(
    axes: tuple[str, ...], size: int, inner: int, chunk: int, granule: int, mesh_shape: MeshShape
) -> Split:
    parts = mesh_shape.size_of(axes)
    if parts > size:
        raise InexpressibleSplit(f"{size} elements or runs of elements are too few for {parts} parts")
    granules = [granule // inner] if granule % inner == 0 else [1]
    if chunk % inner == 0:
        granules.append(chunk // inner)
    for own in granules:
        if chunk_size(size, parts, own) * inner == chunk:
            return Split(axes, own)
    raise InexpressibleSplit(
        f"{parts} parts of {chunk} elements cut a factor of {size} whose elements are runs of {inner}"
    )
