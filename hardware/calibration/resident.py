"""Memory that this process holds, as Linux counts it; nan where the operating system does not say."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from math import nan
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
PEAK_AGAIN = "5"  # what restarts the count of the peak, proc(5)


def resident_bytes() -> float:
    """Return the bytes that are in memory now."""
    return _stated("VmRSS")


def peak_bytes() -> float:
    """Return the most bytes that were in memory since `restart_peak`."""
    return _stated("VmHWM")


def restart_peak() -> bool:
    """Hand free blocks back to the operating system, and count the peak from here; return whether that is possible."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)  # of glibc
    try:
        CLEAR.write_text(PEAK_AGAIN, encoding="ascii")
    except OSError:
        return False
    return True


def _stated(name: str) -> float:
    try:
        lines = STATUS.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return nan
    found = (line.split() for line in lines if line.startswith(f"{name}:"))
    return next((float(words[1]) * 1024 for words in found), nan)
