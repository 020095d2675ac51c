"""Clocks that jump while processes run: libfaketime changes the time of day, and leaves monotonic time as it is."""

from __future__ import annotations

import os
from pathlib import Path

LIBRARY = "libfaketimeMT.so.1"
STARTUP = Path(__file__).parent / "startup"  # what makes Python sleep under this library
FOLDERS = ("/usr/lib/x86_64-linux-gnu/faketime", "/usr/lib/aarch64-linux-gnu/faketime", "/usr/lib/faketime")


def library() -> Path | None:
    """Return the library by which clocks jump; None where it is not installed (Debian: `apt-get install faketime`)."""
    return next((path for folder in FOLDERS if (path := Path(folder) / LIBRARY).exists()), None)


class Clock:
    """The time of day of some processes, as an offset from the true one that may change while they run."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.jump(0)

    def jump(self, offset_s: int) -> None:
        """Set by how many seconds the clock is ahead of the true one."""
        part = self._file.with_suffix(".part")
        part.write_text(f"{offset_s:+d}")
        part.replace(self._file)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the processes that have this clock; nothing where the library is missing."""
        found = library()
        if found is None:
            return {}
        return {
            "LD_PRELOAD": str(found),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_NO_CACHE": "1",
            "PYTHONPATH": os.pathsep.join([str(STARTUP), os.environ.get("PYTHONPATH", "")]),
        }
