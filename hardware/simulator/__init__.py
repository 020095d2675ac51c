"""The device simulator: virtual devices with memories and clocks run an explicit program and count everything."""

from tapestry.hardware.simulator.critical_path import critical_path, time_estimate
from tapestry.hardware.simulator.execution import Event, Execution, Live, OutOfMemory
from tapestry.hardware.simulator.perfetto import to_perfetto
from tapestry.hardware.simulator.pinned import PinnedRun, run_pinned
from tapestry.hardware.simulator.run import simulate
from tapestry.hardware.simulator.steps import simulate_steps

__all__ = [
    "Event",
    "Execution",
    "Live",
    "OutOfMemory",
    "PinnedRun",
    "critical_path",
    "run_pinned",
    "simulate",
    "simulate_steps",
    "time_estimate",
    "to_perfetto",
]
