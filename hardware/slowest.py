"""A device that stands for several kinds that work in step: of every figure the worst, and means of what adds up.

Imported by meshes. Such devices wait for each other, so that the slowest of them decides each step; energy, power and
price are means per device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from tapestry.hardware.device import VECTOR, Device

# How each figure of a device follows from those of several; the rest are those of the slowest.
LEAST = (
    "memory_bytes",
    "memory_bytes_per_s",
    "vector_flops_per_s",
    "cores",
    "communication_queues",
    "contraction_efficiency",
    "memory_efficiency",
    "vector_efficiency",
    "cache_bytes",
    "cache_bytes_per_s",
    "fresh_bytes_per_s",
    "host_bytes_per_s",
    "host_memory_bytes",
)
MOST = (
    "launch_overhead_s",
    "communication_cores",
    "contraction_overhead_s",
    "context_bytes",
    "workspace_bytes",
    "allocator_bytes",
    "communicator_bytes",
)
MEAN = ("tdp_w", "idle_power_w", "joules_per_memory_byte", "joules_per_link_byte", "price_usd_per_hour")


def slowest_device(devices: Sequence[Device]) -> Device:
    """Return a device that is in no figure better than any of these; the very device if they are equal.

    Figures that one of them lacks are unknown. Each block takes as long as with the device that takes longest for it.
    """
    first, *others = dict.fromkeys(devices)
    if not others:
        return first
    kinds = (first, *others)
    slowest = min(kinds, key=lambda device: (fmean(device.peak_flops_per_s.values()), device.name))
    peaks = _peaks(kinds)
    merged: dict[str, Any] = {
        "name": " + ".join(dict.fromkeys(device.name for device in kinds)),
        "vendor": " + ".join(dict.fromkeys(device.vendor for device in kinds)),
        "aliases": (),
        "kinds": kinds,
        "peak_flops_per_s": peaks,
        "joules_per_flop": _joules(devices, peaks),
    }
    combine: tuple[tuple[Sequence[str], Callable[..., Any], Sequence[Device]], ...] = (
        (LEAST, min, kinds),
        (MOST, max, kinds),
        (MEAN, fmean, devices),
    )
    for names, combined, among in combine:
        for name in names:
            known = [getattr(device, name) for device in among]
            merged[name] = None if None in known else combined(known)
    if slowest.fresh_bytes is not None and merged["fresh_bytes_per_s"] is None:
        merged["fresh_bytes_per_s"] = slowest.fresh_bytes_per_s
    return replace(slowest, **merged)


def _peaks(kinds: Sequence[Device]) -> Mapping[str, float]:
    """Return the least peak of every precision that all devices compute somehow, and one of them as such."""
    named = dict.fromkeys(name for device in kinds for name in device.peak_flops_per_s)
    known = [n for n in named if all(n in d.peak_flops_per_s or n in d.compute_dtype_default for d in kinds)]
    return {name: min(device.contraction_flops_per_s(name) for device in kinds) for name in known}


def _joules(devices: Sequence[Device], peaks: Mapping[str, float]) -> Mapping[str, float] | None:
    """Return the mean energy of a flop in every precision with a peak and on vector units, J; None if unknown."""
    if any(device.missing_energy_figure is not None for device in devices):
        return None
    return {name: fmean(device.flop_joules(name) for device in devices) for name in (VECTOR, *peaks)}
