"""Samples of kernels from published measurements: every row's program, and its time."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measurements import Measurement, Systems, UnpredictedError
from benchmarks.measurements.prediction import workload_of
from tapestry.hardware.calibration.samples import KernelSample, Samples, sample_of, stacked
from tapestry.hardware.device import Device

KINDS = ("gemm", "memory_bound_op", "memory_bandwidth")


def samples_of(rows: Sequence[Measurement], systems: Systems, kinds: Sequence[str] = KINDS) -> list[Samples]:
    """Return the samples of all rows of single kernels that have a program, by device, class, precision and launch."""
    devices: dict[str, Device] = {}
    found: dict[tuple[str, str, str, str, str], list[KernelSample]] = {}
    for row in rows:
        if row.counts and row.question.kind in kinds and (known := _sample(row, systems)) is not None:
            device, sample = known
            devices[device.name] = device
            kept = (device.name, sample.key, sample.dtype, str(sample.compute_dtype), sample.launch)
            found.setdefault(kept, []).append(sample)
    return [stacked(devices[key[0]], each) for key, each in sorted(found.items())]


def _sample(row: Measurement, systems: Systems) -> tuple[Device, KernelSample] | None:
    try:
        workload = workload_of(row.question, systems)
    except UnpredictedError:
        return None
    amount = workload.amounts.get(row.question.quantity)
    measured_s = row.value if amount is None or row.question.unit == "s" else amount / row.value
    launch, precision = row.question.launch, workload.compute_dtype
    sample = sample_of(workload.graph, measured_s, row.group, launch, precision)
    return None if sample is None else (workload.mesh.device, sample)
