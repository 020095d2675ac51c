"""Transfers that ranks near each other share: each fetches a slice from afar, then they pass the slices on."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    MESH,
    Dims,
    boxes,
    lengths,
    position,
)


class SharedPiece(NamedTuple):
    """The elements `part` of a box, as a row, that go from one rank to another."""

    target: int
    source: int
    box: np.ndarray
    part: slice


@cache
def shared_transfers(
    held: Dims, needed: Dims, apart: int | None = None
) -> tuple[list[SharedPiece], list[SharedPiece]]:
    """Return what goes where: each missing element once, from the nearest holder.

    Nearest is who differs along the fewest slow axes, then the next one round. Ranks
    near each other that need the same each fetch a slice from afar, then pass it on.
    What ranks of another stage hold, those share that are `apart` on none of as many
    slow axes.
    """
    have, want = boxes(held), boxes(needed)
    axes = dict.fromkeys(name.partition(".")[0] for name in MESH)
    places = np.reshape([position(axis) for axis in axes], (len(axes), COUNT)).T
    rounds: tuple[list[SharedPiece], list[SharedPiece]] = ([], [])
    for target in range(COUNT):
        far = (places != places[target]).tolist()
        order = sorted(range(COUNT), key=lambda r: (far[r], (r - target) % COUNT))
        for source in {have[r].tobytes(): r for r in reversed(order)}.values():
            box = have[source].clip(want[target, :, :1], want[target, :, 1:])
            volume = int(np.prod(lengths(box)))
            near = [*far[source], True].index(True) + 1
            near = near if apart is None else min(near, apart)
            team = [r for r in range(COUNT) if not any(far[r][:near])]
            team = [r for r in team if (want[r] == want[target]).all()]
            size = -(-volume // len(team))
            for k, rank in enumerate(team):
                part = slice(min(k * size, volume), min(k * size + size, volume))
                holder = source if rank == target else rank
                if part.start < part.stop:
                    rounds[rank != target].append(
                        SharedPiece(target, holder, box, part)
                    )
    return rounds
