"""What a result was made with: versions of the libraries that matter and of plug-ins, and the host."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from service import plugins

PACKAGES = ("tapestry", "numpy", "numba", "onnx", "deap", "moocore", "scipy", "sqlalchemy")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that a result may depend on, where they are installed.

    Plug-ins of which something was let in are there as `plugin:NAME`.
    """
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found | plugins.versions()


def host() -> dict[str, Any]:
    """The machine that searched."""
    return {
        "name": platform.node(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
    }
