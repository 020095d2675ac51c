"""Exchanges in which ranks near each other share what comes from afar."""

from __future__ import annotations

import torch
from tapestry.teg.exporters.spmd.runtime.mesh import (
    RANK,
    Dims,
    boxes,
    inside,
    lengths,
)
from tapestry.teg.exporters.spmd.runtime.shared_transfers import shared_transfers
from tapestry.teg.exporters.spmd.runtime.torch_async import AsyncCollective, Steps
from tapestry.teg.exporters.spmd.runtime.torch_collectives import swap, swap_in_turns
from tapestry.teg.exporters.spmd.runtime.torch_exchange import is_run


@AsyncCollective
def shared_exchange(x: torch.Tensor, held: Dims, needed: Dims) -> Steps:
    """Fetch this rank's part piece by piece; those from afar are shared."""
    have, want = boxes(held), boxes(needed)
    result, start = x.new_empty(lengths(want[RANK])), want[RANK, :, 0]
    for pieces in shared_transfers(held, needed):
        sends, receives = [], []
        for target, source, box, part in pieces:
            if source == RANK:
                given = runs(x[inside(box, have[RANK, :, 0])], part.start, part.stop)
                sends += [(run, target) for run in given]
            if target == RANK:
                places = runs(result[inside(box, start)], part.start, part.stop)
                receives += [(run, source) for run in places]
        in_one = all(is_run(piece.box, have[piece.source]) for piece in pieces)
        exchanged = swap if in_one else swap_in_turns
        yield from exchanged(sends, receives)
        x, have = result, want
    return result


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
