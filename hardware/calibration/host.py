"""Descriptions of what runs programs on this machine, before anything is measured."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
PROCESSORS = Path("/proc/cpuinfo")
UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


class RunError(ValueError):
    """Error raised when PyTorch cannot run a program here; the message names the program and the reason."""


class Host(NamedTuple):
    """The device that runs programs here: its name, vendor, memory, largest cache, and the cores of one program."""

    title: str
    vendor: str
    memory_bytes: int
    cache_bytes: int
    cores: int


def this_gpu() -> Host:
    """Describe the first GPU, by what PyTorch says of it.

    Raises:
        RunError: PyTorch finds none.
    """
    check_gpus(1)
    import torch

    found = torch.cuda.get_device_properties(0)
    vendor = "AMD" if torch.version.hip else "NVIDIA"
    return Host(
        found.name, vendor, found.total_memory, found.L2_cache_size or 2**20, found.multi_processor_count
    )


def check_gpus(count: int) -> None:
    """Check that PyTorch finds so many GPUs.

    Raises:
        RunError: there are fewer.
    """
    import torch

    if (found := torch.cuda.device_count()) < count:
        raise RunError(f"{count} GPUs are needed, PyTorch finds {found} here: take --device cpu")


def this_processor(threads: int) -> Host:
    """Describe the processors of this machine for programs of so many threads, as the operating system has them."""
    lines = PROCESSORS.read_text(encoding="utf-8").splitlines() if PROCESSORS.is_file() else []
    stated = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    title = stated.get("model name", os.uname().machine)
    return Host(title, stated.get("vendor_id", "unknown"), memory_bytes, _largest_cache(), threads)


def _largest_cache() -> int:
    """Return the bytes of the largest cache that the operating system lists; a megabyte if it lists none."""
    sizes = [path.read_text(encoding="ascii").strip() for path in CACHES.glob("index*/size")]
    return max((int(size[:-1]) * UNITS[size[-1]] for size in sizes if size[-1:] in UNITS), default=2**20)
