"""Workers: processes that claim jobs from the store, do them, and may be killed at any time."""

from tapestry.service.worker.jobs import Cluster
from tapestry.service.worker.loop import WorkerSettings, new_name, work

__all__ = ["Cluster", "WorkerSettings", "new_name", "work"]
