"""Children: processes that do one task after another within limits, and that can be ended at any moment."""

from tapestry.service.children.child import ChildProcess
from tapestry.service.children.deaths import Cause, ChildDied
from tapestry.service.children.limits import ChildLimits, share_of_memory
from tapestry.service.children.tasks import ChildContext, TaskOutcome

__all__ = [
    "Cause",
    "ChildContext",
    "ChildDied",
    "ChildLimits",
    "ChildProcess",
    "TaskOutcome",
    "share_of_memory",
]
