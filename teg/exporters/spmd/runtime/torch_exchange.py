"""Exchanges of pieces: each missing element once, from the next rank that holds it."""

from __future__ import annotations

import numpy as np
import torch
from tapestry.teg.exporters.spmd.runtime.mesh import (
    RANK,
    Dims,
    boxes,
    inside,
    lengths,
)
from tapestry.teg.exporters.spmd.runtime.torch_async import AsyncCollective, Steps
from tapestry.teg.exporters.spmd.runtime.torch_collectives import swap, swap_in_turns
from tapestry.teg.exporters.spmd.runtime.transfers import transfers


@AsyncCollective
def exchange(x: torch.Tensor, held: Dims, needed: Dims) -> Steps:
    """Fetch the part that this rank needs, piece by piece, from those that hold it."""
    moves, have, want = transfers(held, needed), boxes(held), boxes(needed)[RANK]
    result = x.new_empty(lengths(want))
    start, place = have[RANK, :, 0], want[:, 0]
    sends = [(x[inside(box, start)], to) for to, box in enumerate(moves[RANK])]
    receives = [(result[inside(b, place)], k) for k, b in enumerate(moves[:, RANK])]
    in_one = all(is_run(b, have[k]) for k, row in enumerate(moves) for b in row)
    exchanged = swap if in_one else swap_in_turns
    yield from exchanged(sends, receives)
    return result


def is_run(box: np.ndarray, held: np.ndarray) -> bool:
    """Return whether a box is one run of memory in a tensor that is the box `held`."""
    long = np.flatnonzero(np.array(lengths(box)) != 1)
    return bool((box == held)[long[:1].sum() + 1 :].all() or 0 in lengths(box))
