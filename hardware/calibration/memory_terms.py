"""Memory that a process holds beside its tensors: what is measured of it here, and why the rest is not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from tapestry.hardware.calibration.choice import class_of
from tapestry.hardware.calibration.probes import Probe
from tapestry.hardware.calibration.runs import TimedRuns
from tapestry.hardware.device import Device
from tapestry.teg.operators.kernel_classes import PRODUCT_CLASSES

THRESHOLD_BYTES = 2**25  # from which glibc hands every block back to the operating system, mallopt(3)
THRESHOLD = "stated by glibc: it may keep freed blocks of up to 32 MiB, M_MMAP_THRESHOLD in mallopt(3)"
ALONE = "this mesh is one device, whose plans use no communicator; state it before several such devices are a mesh"
# Why figures are left out of the file, by name.
NOT_COUNTED = "the operating system does not count it (/proc/self/status, /proc/self/clear_refs)"
ON_GPUS = "what a GPU's driver counts is of all processes that use it"
POWER = "there is no meter of power that all machines have"
TERMS = ("context_bytes", "workspace_bytes", "allocator_bytes", "communicator_bytes")
OF_ENERGY = ("tdp_w", "idle_power_w", "joules_per_flop", "joules_per_memory_byte", "joules_per_link_byte")


class MemoryTerm(NamedTuple):
    """Bytes that a process holds beside its tensors, and where the figure comes from."""

    size_bytes: int
    source: str


def memory_terms(runs: TimedRuns, loaded: Sequence[Probe]) -> dict[str, MemoryTerm]:
    """Measure what a process holds beside its tensors, by the name of the figure; what is not counted is left out."""
    products = [p for p in loaded if class_of(p).split(".")[0] in PRODUCT_CLASSES]
    scratch = max((runs.scratch_bytes(probe.name) for probe in products), default=0.0)
    seen = "measured by tapestry calibrate"
    found = {
        "context_bytes": (runs.bare_bytes, f"resident memory of a process before its first program; {seen}"),
        "workspace_bytes": (
            scratch,
            f"the most that a step of {len(products)} products took beside its outputs; {seen}",
        ),
        "allocator_bytes": (THRESHOLD_BYTES, THRESHOLD),
        "communicator_bytes": (0, ALONE),
    }
    return {key: MemoryTerm(round(size), source) for key, (size, source) in found.items() if isfinite(size)}


def unmeasured(device: Device, kind: str) -> Mapping[str, str]:
    """Return the figures that a calibrated device of a kind, `cpu` or `cuda`, lacks, with the reasons."""
    memory = ON_GPUS if kind == "cuda" else NOT_COUNTED
    reasons = {**dict.fromkeys(TERMS, memory), **dict.fromkeys(OF_ENERGY, POWER)}
    reasons["price_usd_per_hour"] = "no measurement says what a machine costs"
    return {name: reason for name, reason in reasons.items() if getattr(device, name) is None}
