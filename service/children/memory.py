"""Memory of processes, by session or with all that they have begun, and control groups that limit it."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tapestry.service.children.limits import CGROUP, PAGE_BYTES

PREFIX = "tapestry-"
PARENT, SESSION = 1, 3  # places in /proc/PID/stat, behind the name in parentheses
_numbers = itertools.count()


def session_processes() -> dict[int, list[int]]:
    """Return the ids of this machine's processes by their sessions."""
    return _processes_by(SESSION)


def descendants(pid: int, without: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """Return the processes that a process has begun, with those that these have begun.

    Those in `without` are left out, with all that they have begun.
    """
    children, found = _processes_by(PARENT), [pid]
    for parent in found:  # which grows meanwhile
        found += [child for child in children.get(parent, ()) if child not in without]
    return tuple(found[1:])


def tree_bytes(pid: int) -> int:
    """Return the bytes in memory (PSS) of a process and all that it has begun."""
    return sum(map(proportional_bytes, (pid, *descendants(pid))))


def _processes_by(place: int) -> dict[int, list[int]]:
    """Return the ids of this machine's processes by a field of theirs."""
    found: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has just ended
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                found.setdefault(int(fields[place]), []).append(int(entry.name))
    return found


def oom_kills(counters: Path) -> int:
    """Return the processes that the system has killed for want of memory, as a file of its counters has them."""
    try:
        lines = counters.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def resident_bytes(pid: int) -> int:
    """Return the bytes in memory of a process, those among them that it shares; 0 if it has ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return 0


def proportional_bytes(pid: int) -> int:
    """Return the bytes in memory of a process, of shared ones its share (PSS); 0 if it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)


class _Form(NamedTuple):
    """A version of control groups: how its files are called, and what is written to them."""

    limit: str
    events: str
    group: str | None


FIRST = _Form("memory.limit_in_bytes", "memory.oom_control", None)
SECOND = _Form("memory.max", "memory.events", "memory.oom.group")


class MemoryGroup:
    """A control group of one child: the system ends its processes when they hold more together than its limit."""

    def __init__(self, folder: Path, form: _Form) -> None:
        self._folder, self._form = folder, form

    @property
    def kills(self) -> int:
        """The number of processes that the system has ended because of the limit."""
        return oom_kills(self._folder / self._form.events)

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        with contextlib.suppress(OSError):
            self._folder.rmdir()


def new_group(pid: int, limit_bytes: int) -> MemoryGroup | None:
    """Put a process into a control group of its own; None where this process may not make one."""
    for parent, form in _parents():
        folder = parent / f"{PREFIX}{os.getpid()}-{next(_numbers)}"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / form.limit).write_text(str(limit_bytes))
            if form.group is not None:
                (folder / form.group).write_text("1")
            (folder / "cgroup.procs").write_text(str(pid))
        except OSError:
            with contextlib.suppress(OSError):
                folder.rmdir()
            continue
        return MemoryGroup(folder, form)
    return None


def remove_abandoned_groups() -> None:
    """Remove the groups without processes that owners which were killed have left."""
    for parent, _ in _parents():
        with contextlib.suppress(OSError):
            for folder in parent.glob(f"{PREFIX}*"):
                with contextlib.suppress(OSError):  # a group with processes cannot be removed
                    folder.rmdir()


def _parents() -> Iterator[tuple[Path, _Form]]:
    """Yield this process's own groups that limit memory, in which it may be allowed to make others."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and (CGROUP / "cgroup.controllers").exists():
            folder = CGROUP / path.lstrip("/")
            with contextlib.suppress(OSError):
                if "memory" in (folder / "cgroup.subtree_control").read_text().split():
                    yield folder, SECOND
        elif "memory" in controllers.split(","):
            inside = CGROUP / "memory" / path.lstrip("/")
            yield (inside if inside.is_dir() else CGROUP / "memory"), FIRST
