"""The time of the rounds of many copies at once, from what the compiled loops count of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tapestry.costmodel.resharding_loops import KINDS, added_rounds, distinct_rounds
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import pipelined_ticks, start_ticks, step_ticks
from tapestry.teg.sharding.copies import Round


def exchange_ticks(moved: np.ndarray, meta: np.ndarray, mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Compute the time of a phase; `moved` `(..., axes, rounds)` is the most bytes that any device receives.

    `meta` are the codes of the rounds (`resharding_loops.code`), of the same shape.

    Returns:
        int64 arrays of shape `(...)`: ticks, and the communication queues that are taken, a bit each.
    """
    shape = (-1, *moved.shape[-2:])
    rounds, number = distinct_rounds(moved.reshape(shape), meta.reshape(shape))
    own, start = np.zeros(len(rounds), dtype=np.int64), np.zeros(len(rounds), dtype=np.int64)
    order = np.lexsort(rounds.T[:2])
    ends = np.flatnonzero((np.diff(rounds[order, :2], axis=0) != 0).any(axis=1)) + 1
    for group in np.split(order, ends) if len(order) else ():
        axis = mesh.axes[rounds[group[0], 0]]
        each = decoded(int(rounds[group[0], 1]), axis.name)
        own[group] = step_ticks(axis, each.kind, each.members, rounds[group, 2], each.stride)
        start[group] = start_ticks(axis, each.kind, each.members, each.stride)
    work, least, used = added_rounds(number, own, np.minimum(own, start))
    crossed = [
        [axis.name for a, axis in enumerate(mesh.axes) if bits >> a & 1]
        for bits in range(used.max(initial=0) + 1)
    ]
    queues = np.array([queue_bits(mesh, axes) if axes else 0 for axes in crossed], dtype=np.int64)
    return pipelined_ticks(work, least).reshape(moved.shape[:-2]), queues[used].reshape(moved.shape[:-2])


def decoded(code: int, axis: str) -> Round:
    """Return the round on a mesh axis that `resharding_loops.code` has encoded."""
    return Round(axis, KINDS[code >> 40], (code >> 20) & 0xFFFFF, code & 0xFFFFF)


def rounds_of(moved: np.ndarray, meta: np.ndarray, mesh: Mesh) -> list[tuple[Round, int]]:
    """Return the rounds of one phase in which anything moves, each with the most bytes that a device receives.

    `moved` and `meta` are those of `exchange_ticks`, `(axes, rounds)`.
    """
    at = zip(*np.nonzero(moved), strict=True)
    return [(decoded(int(meta[a, r]), mesh.axes[a].name), int(moved[a, r])) for a, r in at]


def queue_bits(mesh: Mesh, axes: Collection[str]) -> int:
    """Return the communication queues that a copy over mesh axes takes, a bit each."""
    return sum(1 << queue for queue in mesh.queues_of(axes))
