"""Programs: index spaces, graphs, operators, sharding, reference evaluation, importers.

`tapestry.program()` begins a program written in Python (`teg.programs`).
"""

from __future__ import annotations

if not __name__.startswith("tapestry."):
    raise ImportError("import tapestry.teg: imported as teg, its classes would exist twice")

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapestry.teg.programs.program import program as program

__all__ = ["program"]


def __getattr__(name: str) -> Any:
    """Load the builder when it is first requested, so that `import tapestry.teg` stays light."""
    if name == "program":
        return import_module("tapestry.teg.programs.program").program
    raise AttributeError(f"module 'teg' has no attribute {name!r}")
