"""Exchanges of pieces: each missing element once, from the nearest rank that holds it."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import torch
from tapestry.teg.exporters.spmd.runtime.torch_collectives import send_rows
from tapestry.teg.exporters.spmd.runtime.torch_mesh import (
    MESH,
    RANK,
    Box,
    Dims,
    boxes,
    inside,
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


def exchange(x: torch.Tensor, held: Dims, needed: Dims) -> torch.Tensor:
    """Fetch the part that this rank needs, piece by piece, from the ranks that hold it."""
    have, want = boxes(held), boxes(needed)
    result = x.new_empty([b - a for a, b in want[RANK]])
    source, parts = x, have
    for moves in transfers(held, needed):
        if moves:
            move(result, source, moves, parts, want)
        source, parts = result, want
    return result


def move(
    result: torch.Tensor,
    x: torch.Tensor,
    moves: list[FetchedPiece],
    have: list[Box],
    want: list[Box],
) -> None:
    """Carry out transfers: all pieces for one rank travel as one row."""
    count = len(have)
    out: list[list[torch.Tensor]] = [[x.new_empty(0)] for _ in range(count)]
    counts = [0] * count
    for m in moves:
        if m.source == RANK and m.target != RANK:
            row = x[inside(m.box, have[RANK])].reshape(-1)
            out[m.target].append(row[m.start : m.stop])
        if m.target == RANK and m.source != RANK:
            counts[m.source] += m.stop - m.start
    rows = send_rows([torch.cat(pieces) for pieces in out], counts)
    taken = [0] * count
    for m in moves:
        if m.target != RANK:
            continue
        place = result[inside(m.box, want[RANK])]
        if m.source == RANK:
            data = x[inside(m.box, have[RANK])].reshape(-1)[m.start : m.stop]
        else:
            data = rows[m.source][taken[m.source] : taken[m.source] + m.stop - m.start]
            taken[m.source] += m.stop - m.start
        row = place.flatten().clone()
        row[m.start : m.stop] = data
        place.copy_(row.view(place.shape))
