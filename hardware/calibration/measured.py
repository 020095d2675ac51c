"""Kernels that were measured on devices of the catalog (`hardware/measurements/`), beside their predictions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from tapestry.hardware.calibration.probes import probe_named
from tapestry.hardware.calibration.samples import KernelSample, sample_of
from tapestry.hardware.calibration.validation import on_one_device, predicted
from tapestry.hardware.device import Device
from tapestry.hardware.device_files import shipped
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.timing import TimeEstimate

FOLDER = "measurements"


@dataclass(frozen=True)
class MeasuredTable:
    """Times of kernels by the names of their probes, s: who measured them, and how the kernels were launched.

    `is_fitted`: the figures of the device follow from these rows among others, so that errors of them are in sample.
    """

    source: str
    launch: str
    is_fitted: bool
    seconds: Mapping[str, float]


@dataclass(frozen=True)
class MeasuredKernel:
    """A kernel with its measured time, s, the time that the device's figures predict, and its work as `sample`."""

    name: str
    table: int
    measured_s: float
    predicted: TimeEstimate
    sample: KernelSample

    @property
    def error(self) -> float:
        """The relative error of the prediction."""
        return self.predicted.seconds / self.measured_s - 1

    @property
    def is_inside(self) -> bool:
        """True if the measured time lies in the interval in which nine of ten times are predicted to lie."""
        low, high = self.predicted.interval()
        return low <= self.measured_s <= high


@cache
def _all_tables() -> dict[str, tuple[MeasuredTable, ...]]:
    files: Mapping[str, Any] = shipped(FOLDER)
    return {
        name: tuple(MeasuredTable(**table) for table in content["tables"]) for name, content in files.items()
    }


def measured_tables(device: Device) -> tuple[MeasuredTable, ...]:
    """Return the measurements of kernels on a device of the catalog; none for most."""
    return _all_tables().get(device.name, ())


def measured_kernels(device: Device) -> list[MeasuredKernel]:
    """Predict every kernel that was measured on a device, by the simulator, on one device of its kind."""
    found = []
    for k, table in enumerate(measured_tables(device)):
        alone = Mesh(device.name, device.launched(table.launch), ())
        for name, seconds in table.seconds.items():
            graph = probe_named(name).graph
            sample = sample_of(graph, seconds, name, table.launch)
            if sample is None:
                raise ValueError(
                    f"expected a program of one block in {FOLDER}/{device.name}.toml, not {name!r}"
                )
            found.append(MeasuredKernel(name, k, seconds, predicted(on_one_device(graph), alone), sample))
    return found
