"""A description of the machine at hand, before anything is measured: its memory, processors and caches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
PROCESSORS = Path("/proc/cpuinfo")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


class Host(NamedTuple):
    """A host that runs programs: its name and vendor, its memory in bytes, and the bytes of its largest cache."""

    title: str
    vendor: str
    memory_bytes: int
    cache_bytes: int


def this_processor() -> Host:
    """Describe the processors of this machine, by what the operating system says of the first one."""
    lines = PROCESSORS.read_text(encoding="utf-8").splitlines() if PROCESSORS.is_file() else []
    stated = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    title = stated.get("model name", os.uname().machine)
    return Host(title, stated.get("vendor_id", "unknown"), memory_bytes, _largest_cache())


def _largest_cache() -> int:
    """Return the bytes of the largest cache that the operating system lists; a megabyte if it lists none."""
    sizes = [path.read_text(encoding="ascii").strip() for path in CACHES.glob("index*/size")]
    return max((int(size[:-1]) * UNITS[size[-1]] for size in sizes if size[-1:] in UNITS), default=2**20)
