"""The parts of a tensor that go from rank to rank, each from the next one that holds it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    MESH,
    Dims,
    boxes,
    position,
    sub_axes,
)


@cache
def transfers(held: Dims, needed: Dims) -> np.ndarray:
    """Return the box that goes `[from, to]` each rank: all once, from the next holder."""
    have, want = boxes(held), boxes(needed)
    found = np.zeros((COUNT, *want.shape), int)
    for target in range(COUNT):
        order = [(target - k - 1) % COUNT for k in range(COUNT)]
        for source in {have[rank].tobytes(): rank for rank in order}.values():
            found[source, target] = have[source].clip(
                want[target, :, :1], want[target, :, 1:]
            )
    return found


def reduced_places(wanted: Dims, later: Sequence[str]) -> list[list[list[int]]]:
    """Return by rank and dimension what it, and those it still scatters to, get."""
    have = boxes(wanted)
    team = position(*(name for name in MESH if name not in sub_axes(*later)))
    return [
        [
            sorted({place for span in spans.tolist() for place in range(*span)})
            for spans in have[team == k].swapaxes(0, 1)
        ]
        for k in team
    ]
