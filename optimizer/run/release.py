"""The release of the search on a machine: what must be equal on all machines that share one search."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

PACKAGES = ("teg", "hardware", "rewrites", "costmodel", "optimizer")
DIGEST_DIGITS = 12  # of the sources, that tell releases apart


class Release(NamedTuple):
    """The versions that a search depends on; of Python, numpy and numba the first two numbers."""

    tapestry: str
    sources: str
    python: str
    numpy: str
    numba: str

    def differences(self, other: Release) -> list[str]:
        """Return what differs on another machine, with both versions: `tapestry 0.2.0, here 0.1.0`."""
        pairs = zip(self._fields, self, other, strict=True)
        return [f"{_label(name)} {there}, here {here}" for name, here, there in pairs if here != there]


def _label(name: str) -> str:
    return "sources of tapestry" if name == "sources" else name


def short_version(text: str) -> str:
    """Return the first two numbers of a version: results of compiled code are equal within them."""
    return ".".join(text.split(".")[:2])


@cache
def own_release() -> Release:
    """Return the release that runs in this process."""
    numpy, numba = (short_version(version(name)) for name in ("numpy", "numba"))
    python = short_version(platform.python_version())
    return Release(version("tapestry"), sources_digest()[:DIGEST_DIGITS], python, numpy, numba)


@cache
def sources_digest() -> str:
    """Compute a digest of all code whose change would change a search."""
    sources = hashlib.sha256()
    for package in PACKAGES:
        for path in sorted((Path(__file__).resolve().parents[2] / package).rglob("*.py")):
            sources.update(path.name.encode() + path.read_bytes())
    return sources.hexdigest()
