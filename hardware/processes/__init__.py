"""Plans on real processes: one for each device, over torch's process groups; a process may be lost in the middle."""

from tapestry.hardware.processes.pool import LARGEST_GROUP, DeviceProcesses
from tapestry.hardware.processes.supervision import ProcessError, ProcessRun, run_on_processes

__all__ = ["LARGEST_GROUP", "DeviceProcesses", "ProcessError", "ProcessRun", "run_on_processes"]
