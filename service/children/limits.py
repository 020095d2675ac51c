"""Limits of a child, as it sets them on itself, and the memory that this machine or container has."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
UNLIMITED_BYTES = 2**60  # what the first version of control groups says where there is no limit
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
LEAST_BYTES = 512 * 2**20  # what a child needs to do anything


@dataclass(frozen=True)
class ChildLimits:
    """The limits of a child; None: there is none.

    `memory_bytes` is what the child and its own children may hold together, beyond what they share with others.
    `processor_s` are the seconds of processor time of one task.
    """

    memory_bytes: int | None = None
    processor_s: float | None = None


def share_of_memory(share: float, processes: int = 1) -> int:
    """Return the bytes that each of some processes may have, so that all have a share of this machine's memory."""
    return max(LEAST_BYTES, int(host_memory_bytes() * share / processes))


def host_memory_bytes() -> int:
    """Return the bytes of memory of this machine, or of the container, if that has fewer."""
    total, (limit, _) = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES, group_limit()
    return total if limit is None else min(limit, total)


def group_limit(group: Path = CGROUP) -> tuple[int | None, int]:
    """Return the limit of a control group of either version and what it uses, in bytes; None without a limit."""
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            text = (group / limit).read_text().strip()
            if text != "max" and int(text) < UNLIMITED_BYTES:
                return int(text), int((group / used).read_text())
        except (OSError, ValueError):
            continue
    return None, 0


def limit_memory(memory_bytes: int | None) -> None:
    """Limit the data of this process: more than it has now and so many bytes is refused, as a `MemoryError`.

    Address space that is only reserved does not count (RLIMIT_DATA, not RLIMIT_AS).
    """
    if memory_bytes is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        wanted = data_bytes() + memory_bytes
        resource.setrlimit(
            resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def limit_processor(processor_s: float | None) -> None:
    """Limit the processor time of this process: it is ended by SIGXCPU when it has used so much more than until now."""
    if processor_s is not None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        wanted = int(used.ru_utime + used.ru_stime + processor_s) + 1
        resource.setrlimit(
            resource.RLIMIT_CPU, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


def data_bytes() -> int:
    """Return the bytes of data that count towards the limit of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
