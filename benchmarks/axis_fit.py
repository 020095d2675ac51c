"""Fits of the figures of an axis, from which alpha-beta follows where no collective like it is measured.

The loss is the mean absolute logarithm of predicted over measured, of the axis without its tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tapestry.hardware import MeshAxis
from tapestry.hardware.timing import seconds, step_ticks
from tapestry.hardware.timing.collectives import received_share

Figures = Mapping[str, float]
FEWEST = 10  # collectives to which more than efficiencies are fitted

# Figure -> what it may be. The protocol without a ramp is the library's on GPUs; other axes have none.
TWO_PROTOCOLS = {
    "latency_s": np.arange(2, 41) / 2 * 1e-6,
    "efficiency": np.arange(60, 101) / 100,
    "ramp_s": np.arange(0, 61) * 1e-6,
    "small_message_bytes_per_s": np.array([5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 80, 100]) * 1e9,
}
ONE_PROTOCOL = {"latency_s": np.arange(2, 81) / 10 * 1e-6, "efficiency": np.arange(40, 101) / 100}
IN_SWITCH = {"all_reduce_efficiency": np.arange(80, 111) / 100}


class MeasuredCollective(NamedTuple):
    """A measured collective among devices of one axis; `bytes` as its benchmark counts them."""

    kind: str
    members: int
    bytes: float
    time_s: float

    def error(self, axis: MeshAxis) -> float:
        """Return the absolute logarithm of predicted over measured."""
        step = "fetch" if self.kind == "send_recv" else self.kind
        received = received_share(self.kind, self.members) * self.bytes
        return float(abs(np.log(seconds(step_ticks(axis, step, self.members, received)) / self.time_s)))


def fit_axis(axis: MeshAxis, measured: Sequence[MeasuredCollective]) -> dict[str, float]:
    """Fit the figures of an axis: all of them, or its efficiencies where few collectives are measured."""
    bare = replace(axis, collectives=())
    grids = dict(ONE_PROTOCOL if axis.small_message_bytes_per_s is None else TWO_PROTOCOLS)
    if axis.all_reduce_efficiency is not None:
        grids |= IN_SWITCH
    if len(measured) < FEWEST:
        grids = {name: grid for name, grid in grids.items() if "efficiency" in name}

    def loss(figures: Figures) -> float:
        trial = replace(bare, **figures)
        return float(np.mean([each.error(trial) for each in measured]))

    return descend(loss, grids, {name: float(getattr(axis, name)) for name in grids})


def descend(
    loss: Callable[[Figures], float], grids: Mapping[str, np.ndarray], start: Figures
) -> dict[str, float]:
    """Minimize the loss by coordinate descent: each figure in turn over its grid, until nothing improves."""
    best, least = dict(start), loss(start)
    improved = True
    while improved:
        improved = False
        for name, grid in grids.items():
            for value in grid:
                trial = {**best, name: float(f"{value:.4g}")}
                if (found := loss(trial)) < least - 1e-9:
                    best, least, improved = trial, found, True
    return best
