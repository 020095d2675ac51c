"""The time of the rounds of many copies at once, from what the compiled loops count of them."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tapestry.costmodel.resharding_loops import KINDS
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import pipelined_ticks, start_ticks, step_ticks
from tapestry.teg.sharding.copies import Round


def exchange_ticks(moved: np.ndarray, meta: np.ndarray, mesh: Mesh) -> tuple[np.ndarray, np.ndarray]:
    """Compute the time of a phase; `moved` `(..., axes, rounds)` is the most bytes that any device receives.

    `meta` are the codes of the rounds (`resharding_loops.code`), of the same shape.

    Returns:
        int64 arrays of shape `(...)`: ticks, and the communication queues that are taken, a bit each.
    """
    taken = np.zeros(moved.shape[:-1], dtype=np.int64)
    least, used = np.zeros_like(taken), np.zeros(moved.shape[:-2], dtype=np.int64)
    for a, axis in enumerate(mesh.axes):
        for r in range(moved.shape[-1]):
            amount = moved[..., a, r]
            active = amount > 0
            codes = meta[..., a, r]
            for code in np.unique(codes[active]):
                chosen = active & (codes == code)
                each = decoded(int(code), axis.name)
                ticks = step_ticks(axis, each.kind, each.members, amount[chosen], each.stride)
                taken[..., a][chosen] += ticks
                least[..., a][chosen] += np.minimum(
                    ticks, start_ticks(axis, each.kind, each.members, each.stride)
                )
                used[chosen] |= 1 << a
    queues = np.zeros_like(used)
    for bits in np.unique(used[used > 0]):
        crossed = {axis.name for a, axis in enumerate(mesh.axes) if bits >> a & 1}
        queues[used == bits] = queue_bits(mesh, crossed)
    return pipelined_ticks(taken - least, least.sum(axis=-1)), queues


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
