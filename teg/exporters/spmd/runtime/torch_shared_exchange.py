"""Exchanges in which ranks near each other share what comes from afar."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tapestry.teg.exporters.spmd.runtime.mesh import (
    RANK,
    Dims,
    boxes,
    inside,
    lengths,
)
from tapestry.teg.exporters.spmd.runtime.shared_transfers import (
    SharedPiece,
    shared_transfers,
)
from tapestry.teg.exporters.spmd.runtime.torch_async import AsyncCollective, Steps
from tapestry.teg.exporters.spmd.runtime.torch_collectives import swap, swap_in_turns
from tapestry.teg.exporters.spmd.runtime.torch_exchange import is_run


@AsyncCollective
def shared_exchange(x: torch.Tensor, held: Dims, needed: Dims) -> Steps:
    """Fetch this rank's part piece by piece; those from afar are shared."""
    have, want = boxes(held), boxes(needed)
    result = x.new_empty(lengths(want[RANK]))
    for pieces in shared_transfers(held, needed):
        sends = outgoing(x, have, pieces)
        receives = incoming(result, want, pieces)
        yield from exchanged(pieces, have)(sends, receives)
        x, have = result, want
    return result


def outgoing(x: torch.Tensor, have: np.ndarray, pieces: list[SharedPiece]) -> Any:
    """Return what this rank sends of its part, and to whom."""
    found = []
    for target, source, box, part in pieces:
        if source == RANK:
            given = x[inside(box, have[RANK, :, 0])]
            found += [(run, target) for run in runs(given, part.start, part.stop)]
    return found


def incoming(x: torch.Tensor, want: np.ndarray, pieces: list[SharedPiece]) -> Any:
    """Return the places of what this rank receives, and from whom."""
    found = []
    for target, source, box, part in pieces:
        if target == RANK:
            place = x[inside(box, want[RANK, :, 0])]
            found += [(run, source) for run in runs(place, part.start, part.stop)]
    return found


def exchanged(pieces: list[SharedPiece], have: np.ndarray) -> Any:
    """Return how all ranks swap pieces: in turns where these are no runs of memory."""
    in_one = all(is_run(piece.box, have[piece.source]) for piece in pieces)
    return swap if in_one else swap_in_turns


def runs(x: torch.Tensor, start: int, stop: int) -> list[torch.Tensor]:
    """Return the boxes of a tensor that hold elements `start` to `stop`, in order."""
    if stop - start in (0, x.numel()):
        return [x] if start < stop else []
    inner = x[0].numel()
    first, last = -(-start // inner), stop // inner
    if first > last:
        return runs(x[last], start - last * inner, stop - last * inner)
    head, tail = [], []
    if start % inner:
        head = runs(x[first - 1], start % inner, inner)
    if stop % inner:
        tail = runs(x[last], 0, stop % inner)
    return [*head, *([x[first:last]] if first < last else []), *tail]
