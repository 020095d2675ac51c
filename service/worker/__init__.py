"""Workers: processes that claim jobs from the store, do them, and may be killed at any time."""

from service.worker.loop import WorkerSettings, work
from service.worker.scratch import scratch_folder

__all__ = ["WorkerSettings", "scratch_folder", "work"]
