"""Joules of work: arithmetic, memory and links, each at its figure of the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from tapestry.hardware.device import VECTOR, Device
from tapestry.hardware.timing.units import PICOJOULES_PER_J, Ticks, rounded_up
from tapestry.teg.operators.operator import PartAmounts


def energy_pj(
    device: Device,
    dtype: str,
    flops: ArrayLike,
    memory_bytes: ArrayLike,
    link_bytes: ArrayLike,
    *,
    kind: str = "contraction",
    parts: Sequence[PartAmounts] = (),
) -> Ticks:
    """Compute the energy of work in pJ, rounded up, without idle power: flops, memory bytes, bytes received.

    `dtype` is the compute dtype of a `contraction`; other kinds of blocks count at the vector units' figure, and
    the `parts` of a `fused` one each at its own.

    Returns:
        int64 array of the broadcast shape of the three amounts.

    Raises:
        MissingFigureError: the device lacks one of the three figures; `energy_j` is to be refused.
    """
    arithmetic_j: ArrayLike
    if kind == "fused":
        arithmetic_j = sum(
            (_flop_joules(device, dtype, p.kind) * np.asarray(p.flops, np.float64) for p in parts),
            np.zeros(()),
        )
    else:
        arithmetic_j = _flop_joules(device, dtype, kind) * np.asarray(flops, np.float64)
    memory_j = device.require("joules_per_memory_byte")
    link_j = device.require("joules_per_link_byte")
    energy_j = (
        arithmetic_j
        + memory_j * np.asarray(memory_bytes, np.float64)
        + link_j * np.asarray(link_bytes, np.float64)
    )
    return rounded_up(energy_j * PICOJOULES_PER_J, "pJ")


def _flop_joules(device: Device, dtype: str, kind: str) -> float:
    return device.flop_joules(dtype if kind == "contraction" else VECTOR)
