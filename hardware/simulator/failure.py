"""Failures and slowdowns of a mesh: which devices are lost and when, which devices and links are slow.

Imported by the simulator and by the command line, which reads them from texts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tapestry.teg.sharding.mesh_shape import MeshShape


class Failure(NamedTuple):
    """A loss of `devices` after `fraction` of a run's predicted time, in `[0, 1)`."""

    devices: tuple[int, ...]
    fraction: float


@dataclass(frozen=True)
class Slowdown:
    """Factors on durations: of blocks by device, of copies by the mesh axis whose links they cross."""

    devices: dict[int, float] = field(default_factory=dict)
    axes: dict[str, float] = field(default_factory=dict)

    def compute(self, ticks: np.ndarray) -> np.ndarray:
        """Lengthen the durations of a block, `(devices,)` in ticks."""
        slow = ticks.copy()
        for device, factor in self.devices.items():
            slow[device] = math.ceil(int(ticks[device]) * factor)
        return slow

    def link(self, axis: str, ticks: int) -> int:
        """Lengthen the duration of a round over one mesh axis."""
        return math.ceil(ticks * self.axes.get(axis, 1.0))


def parse_failure(text: str, mesh_shape: MeshShape) -> Failure:
    """Read a failure such as `gpu:3@0.4` or `node:1,gpu:3@0.4`: all devices with these coordinates, and the moment.

    Raises:
        ValueError: another form, an unknown axis or device, no survivor, or a moment outside of `[0, 1)`.
    """
    where, _, moment = text.partition("@")
    devices = devices_at(where, mesh_shape)
    fraction = _number(moment)
    if devices is None or fraction is None or not 0 <= fraction < 1:
        raise ValueError(
            f"failure {text!r} must be axis:coordinate@moment, such as {device_example(mesh_shape)}@0.4: devices of "
            f"{_axes(mesh_shape)}, and a moment from 0 up to, but not including, 1, as a fraction of the run"
        )
    if len(devices) == mesh_shape.device_count:
        raise ValueError(f"failure {text!r} leaves no device to go on with; name an axis of more than one")
    return Failure(devices, fraction)


def parse_slowdown(texts: Sequence[str], mesh_shape: MeshShape) -> Slowdown:
    """Read slow devices such as `gpu:3=1.5` and slow links such as `node=2`, as factors on their durations.

    Raises:
        ValueError: another form, an unknown axis or device, or a factor below 1.
    """
    slow = Slowdown()
    for text in texts:
        where, _, factor_text = text.partition("=")
        factor = _number(factor_text)
        named = where in dict(mesh_shape.axes)
        devices = None if named else devices_at(where, mesh_shape)
        if factor is None or factor < 1 or not (named or devices):
            raise ValueError(
                f"slowdown {text!r} must be axis:coordinate=factor for devices, such as "
                f"{device_example(mesh_shape)}=1.5, or axis=factor for links, with a factor of at least 1; the mesh "
                f"has {_axes(mesh_shape)}"
            )
        if named:
            slow.axes[where] = factor
        slow.devices.update(dict.fromkeys(devices or (), factor))
    return slow


def devices_at(text: str, mesh_shape: MeshShape) -> tuple[int, ...] | None:
    """Return the devices with the coordinates of a text such as `node:1,gpu:3`; None where it names none."""
    names = [name for name, _ in mesh_shape.axes]
    chosen = np.ones(mesh_shape.device_count, dtype=bool)
    for item in text.split(","):
        name, _, place = item.partition(":")
        if name not in names or not place.isdecimal():
            return None
        chosen &= mesh_shape.axis_coordinates[:, names.index(name)] == int(place)
    return tuple(np.flatnonzero(chosen).tolist()) or None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def device_example(mesh_shape: MeshShape) -> str:
    """Return the coordinates of a device for messages, such as `gpu:7`."""
    name, size = mesh_shape.axes[-1]
    return f"{name}:{size - 1}"


def _axes(mesh_shape: MeshShape) -> str:
    return ", ".join(f"{name}:0 to {name}:{size - 1}" for name, size in mesh_shape.axes)
