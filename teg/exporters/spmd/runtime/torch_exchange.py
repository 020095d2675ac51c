"""Exchanges of pieces: each missing element once, from the nearest rank that holds it."""

from __future__ import annotations

import torch
from tapestry.teg.exporters.spmd.runtime.mesh import RANK, Box, Dims, boxes, inside
from tapestry.teg.exporters.spmd.runtime.torch_collectives import send_rows
from tapestry.teg.exporters.spmd.runtime.transfers import FetchedPiece, transfers


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
