"""The memory of processes and of all that they have begun."""

from __future__ import annotations

from pathlib import Path

from tapestry.service.children.memory import proportional_bytes


def descendants(pid: int, without: frozenset[int] = frozenset()) -> tuple[int, ...]:
    """Return the processes that a process has begun, with those that these have begun; none where that is unknown.

    Those in `without` are left out, with all that they have begun.
    """
    children: list[int] = []
    for tasks in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += map(int, tasks.read_text().split())
        except OSError:
            continue
    kept = (child for child in children if child not in without)
    return tuple(one for child in kept for one in (child, *descendants(child, without)))


def tree_bytes(pid: int) -> int:
    """Return the bytes in memory (PSS) of a process and all that it has begun."""
    return sum(map(proportional_bytes, (pid, *descendants(pid))))
