"""The modules of all tasks of the pool, loaded once by the process from which those of the pool are forked."""

from tapestry.service.api import (
    comparison_tasks,
    device_tasks,
    drawing_tasks,
    plan_tasks,
    precision_tasks,
    rewrite_tasks,
    tasks,
    tensor_tasks,
)

__all__ = [
    "comparison_tasks",
    "device_tasks",
    "drawing_tasks",
    "plan_tasks",
    "precision_tasks",
    "rewrite_tasks",
    "tasks",
    "tensor_tasks",
]
