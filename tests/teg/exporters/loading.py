"""Exported modules, loaded from their text as it is: a test may change it twice in a second."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any


def load_module(path: Path) -> Any:
    """Run a module's text, without bytecode that is cached by the second."""
    module = ModuleType("exported")
    exec(compile(path.read_bytes(), path, "exec"), vars(module))
    return module
