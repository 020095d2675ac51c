"""Ranks on the mesh, and the parts of tensors that they hold."""

from __future__ import annotations

import math
import os
from functools import cache, reduce
from typing import Any, NamedTuple

MESH: dict[str, int] = {}
RANK = int(os.environ.get("RANK", "0"))


def coordinates(rank: int) -> dict[str, int]:
    """Return the coordinate of a rank along each sub-axis of the mesh; the last one runs fastest."""
    found = {}
    for name, size in reversed(MESH.items()):
        rank, found[name] = divmod(rank, size)
    return found


def position(*axes: str, rank: int = RANK) -> int:
    """Return the position of a rank along sub-axes, the first one most significant."""
    at = coordinates(rank)
    return reduce(lambda found, name: found * MESH[name] + at[name], axes, 0)


class Chunks(NamedTuple):
    """One dimension of a tensor: its size, and each rank's part of it."""

    size: int
    spans: tuple[tuple[int, int], ...]


@cache
def split(size: int, *axes: str, granule: int = 1) -> Chunks:
    """Split a dimension over sub-axes; the last parts may be smaller or empty."""
    count = math.prod(MESH[name] for name in axes)
    granules = -(-size // granule)
    chunk = -(-granules // count) * granule
    starts = [
        min(position(*axes, rank=rank) * chunk, size)
        for rank in range(math.prod(MESH.values()))
    ]
    return Chunks(size, tuple((a, min(a + chunk, size)) for a in starts))


def window(
    parts: Chunks | int, stride: int, offset: int, extent: int, low: int, high: int
) -> Chunks:
    """Return what windows over the parts of an index read: its neighbors' rims too."""
    spans = []
    for a, b in whole(parts).spans:
        ends = (a * stride, (b - 1) * stride)
        start = min(max(min(ends) + offset, low), high)
        stop = min(max(max(ends) + offset + extent, low), high)
        spans.append((start, max(start, stop) if a < b else start))
    return Chunks(high, tuple(spans))


def whole(parts: Chunks | int) -> Chunks:
    """Return the parts of a dimension; of one that is not split, all of it for every rank."""
    if isinstance(parts, Chunks):
        return parts
    return Chunks(parts, ((0, parts),) * math.prod(MESH.values()))


Dims = tuple[Chunks | int, ...]
Box = tuple[tuple[int, int], ...]


def each(names: str, rounds: range, entry: Any) -> dict[str, Any]:
    """Return equal entries for the names that a text makes of numbers."""
    return {names.format(i): entry for i in rounds}


def listed(names: str, rounds: range, values: list[Any]) -> dict[str, Any]:
    """Return the values of a list by the names that a text makes of numbers."""
    return {names.format(i): value for i, value in zip(rounds, values, strict=True)}


@cache
def boxes(spec: Dims) -> list[Box]:
    """Return the box of a tensor that each rank has."""
    ranks = range(math.prod(MESH.values()))
    return [tuple(whole(parts).spans[rank] for parts in spec) for rank in ranks]


def sizes(spec: Dims) -> tuple[int, ...]:
    """Return the shape of the whole tensor."""
    return tuple(whole(parts).size for parts in spec)


def inside(box: Box, held: Box) -> tuple[slice, ...]:
    """Return where a box lies in a tensor that is the box `held`."""
    return tuple(slice(a - h, b - h) for (a, b), (h, _) in zip(box, held, strict=True))


def volume(box: Box) -> int:
    """Count the elements of a box."""
    return math.prod(b - a for a, b in box)
