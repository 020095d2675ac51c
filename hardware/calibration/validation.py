"""Predicted beside measured: programs run by PyTorch on this machine, and costed on a device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from tapestry.hardware.calibration.runs import Progress, TimedRuns, Timing, unreported
from tapestry.hardware.mesh import Mesh
from tapestry.hardware.simulator import simulate, time_estimate
from tapestry.hardware.timing import TimeEstimate
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.expand import ExplicitGraph, expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements


@dataclass(frozen=True)
class Validation:
    """A program's time as predicted, with its error, and as measured here."""

    name: str
    predicted: TimeEstimate
    measured: Timing

    @property
    def predicted_s(self) -> float:
        """The median of the predicted time."""
        return self.predicted.seconds

    @property
    def interval_s(self) -> tuple[float, float]:
        """The seconds between which nine of ten times are predicted to lie."""
        return self.predicted.interval()

    @property
    def is_inside(self) -> bool:
        """True if the measured time lies in the interval."""
        low, high = self.interval_s
        return low <= self.measured.seconds <= high

    @property
    def error(self) -> float:
        """The relative error of the prediction."""
        return self.predicted_s / self.measured.seconds - 1

    def to_json(self) -> dict[str, Any]:
        """Return the times in seconds, with their errors as ratios."""
        low, high = self.interval_s
        return {
            "name": self.name,
            "predicted_s": self.predicted_s,
            "low_s": low,
            "high_s": high,
            "measured_s": self.measured.seconds,
            "inside_90": self.is_inside,
            "repeat_error": self.measured.repeat_error,
            "error": self.error,
        }


def on_one_device(graph: Graph) -> ExplicitGraph:
    """Return a program as the plan of one device."""
    return expand(graph, Placements({}), MeshShape(()))


def predicted_s(explicit: ExplicitGraph, mesh: Mesh) -> float:
    """Compute the seconds of a plan on the simulator, which are those of the cost model."""
    return predicted(explicit, mesh).seconds


def predicted(explicit: ExplicitGraph, mesh: Mesh) -> TimeEstimate:
    """Compute the time of a plan on the simulator, with its error."""
    part = replace(mesh, axes=()) if not explicit.mesh_shape.axes else mesh
    return time_estimate(simulate(explicit, part, dry=True, capacity_check=False), part)


def validate(
    plans: Mapping[str, ExplicitGraph],
    mesh: Mesh,
    runs: TimedRuns,
    limit_s: float,
    clock: Callable[[], float],
    progress: Progress = unreported,
) -> list[Validation]:
    """Run plans in turns for about `limit_s` seconds, and compare each with its prediction.

    Raises:
        RunError: a program cannot be exported or run.
    """
    estimates = {name: predicted(explicit, mesh) for name, explicit in plans.items()}
    for name, explicit in plans.items():
        progress(0.0, f"loading {name}")
        runs.load(name, explicit)
    timings = runs.measure(plans, limit_s, clock, progress)
    return [Validation(name, estimates[name], timings[name]) for name in plans]


def median_error(found: Sequence[Validation]) -> float:
    """Return the median of the absolute errors."""
    return median(abs(each.error) for each in found)
