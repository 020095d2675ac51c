"""Causes of the death of a child: told from its exit, from who has killed it, and from the system's own counters."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Literal

from tapestry.service.children.memory import oom_kills

VMSTAT = Path("/proc/vmstat")

Cause = Literal["memory", "processor_time", "ended", "killed", "crashed", "exited"]


class ChildDied(Exception):
    """Error raised where a child has died; `cause` for programs, the message for people.

    `memory` and `processor_time` are limits that it exceeded; it was `ended` by its owner, `killed` by somebody else,
    has `crashed` by a signal of its own (a segmentation fault), or has `exited`.
    """

    def __init__(self, cause: Cause, message: str) -> None:
        super().__init__(message)
        self.cause: Cause = cause


def death_of(exit_code: int | None, *, was_ended: bool, was_killed_by_system: bool) -> ChildDied:
    """Return what a child has died of, given its exit code, which is minus the number of a signal that killed it."""
    if was_ended:
        return ChildDied("ended", "it was ended")
    if exit_code == -signal.SIGXCPU:
        return ChildDied("processor_time", "it has used more processor time than is allowed")
    if exit_code == -signal.SIGKILL and was_killed_by_system:
        return ChildDied("memory", "the system has ended it for want of memory")
    if exit_code == -signal.SIGKILL:
        return ChildDied("killed", "it was killed (SIGKILL), not by this service and not for want of memory")
    if exit_code is not None and exit_code < 0:
        return ChildDied("crashed", f"it has crashed ({signal.Signals(-exit_code).name})")
    return ChildDied("exited", f"it has exited with {exit_code}")


def system_kills() -> int:
    """Return how many processes the system has killed for want of memory since it started."""
    return oom_kills(VMSTAT)
