"""Transfers: which pieces of a tensor each rank needs, and from whom they come."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    Box,
    Dims,
    boxes,
    coordinates,
    position,
    volume,
)


class FetchedPiece(NamedTuple):
    """The elements `[start, stop)` of a box, as a row, that go from one rank to another."""

    target: int
    source: int
    box: Box
    start: int
    stop: int


@cache
def transfers(
    held: Dims, needed: Dims
) -> tuple[list[FetchedPiece], list[FetchedPiece]]:
    """Return what goes where: each missing element once, from the nearest rank that has it.

    Nearest is the rank that differs along the fewest slow axes, then the next one round. Ranks that need the same,
    near each other, share a transfer from afar: each fetches a slice (the first list), then they pass the slices on
    (the second).
    """
    have, want = boxes(held), boxes(needed)
    axes = list(dict.fromkeys(name.partition(".")[0] for name in MESH))
    places = [
        tuple(
            position(*(n for n in MESH if n.partition(".")[0] == axis), rank=rank)
            for axis in axes
        )
        for rank in range(len(have))
    ]
    first, second = [], []
    for target, at in enumerate(places):

        def distance(
            rank: int, at: tuple[int, ...] = at, target: int = target
        ) -> tuple[Any, int]:
            return [a != b for a, b in zip(places[rank], at, strict=True)], (
                rank - target
            ) % len(have)

        nearest: dict[Box, int] = {}
        for source in sorted(range(len(have)), key=distance):
            if volume(have[source]):
                nearest.setdefault(have[source], source)
        for box, source in nearest.items():
            both = zip(box, want[target], strict=True)
            piece = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in both)
            if any(a >= b for a, b in piece):
                continue
            slowest = next(
                (k for k, a in enumerate(at) if a != places[source][k]), len(axes)
            )
            team = [
                rank
                for rank, other in enumerate(places)
                if other[: slowest + 1] == at[: slowest + 1]
                and want[rank] == want[target]
            ]
            size = -(-volume(piece) // len(team))
            for k, rank in enumerate(team):
                start, stop = (min(n * size, volume(piece)) for n in (k, k + 1))
                if start < stop and rank == target:
                    first.append(FetchedPiece(target, source, piece, start, stop))
                elif start < stop:
                    second.append(FetchedPiece(target, rank, piece, start, stop))
    return first, second


def reduced_places(wanted: Dims, rank: int, later: Sequence[str]) -> list[Any]:
    """Return, per dimension, what a rank and those that it will still scatter to end up with."""
    at = coordinates(rank)
    found: list[set[int]] = [set() for _ in wanted]
    for other, box in enumerate(boxes(wanted)):
        near = all(c == at[a] for a, c in coordinates(other).items() if a not in later)
        if near and volume(box):
            for places, (a, b) in zip(found, box, strict=True):
                places.update(range(a, b))
    return [sorted(places) for places in found]
