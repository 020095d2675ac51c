"""The environment of a result: versions of the libraries that matter and of plug-ins, and the host."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tapestry.service import plugins

PACKAGES = ("tapestry", "numpy", "numba", "onnx", "deap", "moocore", "scipy", "sqlalchemy")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the installed packages that a result may depend on.

    Plug-ins with accepted members are included as `plugin:NAME`.
    """
    return dict(_packages()) | plugins.versions()


@cache
def _packages() -> Mapping[str, str]:
    """Look the packages up, once: the metadata of each is a file."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def plug_ins_of(found: Mapping[str, str]) -> list[str]:
    """List the plug-ins among the versions of a run: `tapestry-swiglu 0.1.0`."""
    return [
        f"{name.removeprefix(plugins.PREFIX)} {version}".rstrip()
        for name, version in found.items()
        if name.startswith(plugins.PREFIX)
    ]


def host() -> dict[str, Any]:
    """Describe the host that searched."""
    return {
        "name": platform.node(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count() or 1,
    }
