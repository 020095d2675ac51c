"""numba's `njit` with a cache that can never be stale.

numba notices a changed file only for the functions in it, not for those that inline them. The cache folder
is therefore named after the sources of every package with compiled code: any change starts a new one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba

COMPILED_PACKAGES = ("costmodel", "optimizer")


def source_fingerprint(packages: Sequence[str] = COMPILED_PACKAGES) -> str:
    """Compute a short hash of the sources of packages (those with compiled code), and of numba's version."""
    home = Path(__file__).parent.parent
    digest = hashlib.sha256(numba.__version__.encode())
    for package in packages:
        for path in sorted((home / package).rglob("*.py")):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder() -> Path:
    """Return the folder of compiled code: in `$TAPESTRY_CACHE`, else in the user's cache folder."""
    base = os.environ.get("TAPESTRY_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "tapestry" / source_fingerprint()


numba.config.CACHE_DIR = str(cache_folder())

njit: Callable[..., Any] = numba.njit
