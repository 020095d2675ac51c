"""Seconds and joules of the link between a device and its host, which carries both ways at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tapestry.hardware.device import Device, MissingFigureError
from tapestry.hardware.timing.energy import energy_pj
from tapestry.hardware.timing.units import Ticks, ticks


def host_ticks(device: Device, size_bytes: ArrayLike) -> Ticks:
    """Compute the ticks of carrying so many bytes, any shape, from a device to its host or back; none for none.

    Raises:
        MissingFigureError: the device states no `host_bytes_per_s`.
    """
    carried = np.asarray(size_bytes, np.int64)
    if not carried.any():
        return np.zeros_like(carried)
    if device.host_bytes_per_s is None:
        raise MissingFigureError(
            f"device {device.name!r} has no host_bytes_per_s, so that nothing can wait on its host: "
            "give one in the device file, or keep the program's waypoints on the devices"
        )
    carried_s = carried / device.host_bytes_per_s
    return ticks(np.where(carried > 0, device.launch_overhead_s + carried_s, 0.0))


def host_energy_pj(device: Device, size_bytes: ArrayLike) -> NDArray[np.int64]:
    """Compute the energy of carrying so many bytes to the host or back, pJ: of a link, and of the device's memory.

    Zero where the device states no figures of energy.
    """
    carried = np.asarray(size_bytes, np.int64)
    if device.missing_energy_figure is not None:
        return np.zeros_like(carried)
    return energy_pj(device, "float32", 0, carried, carried, kind="vector")
