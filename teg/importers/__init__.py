"""Front ends: programs of other formats as graphs. Nothing heavy is loaded before it is called for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from teg.importers.failure import ImportFailure
    from teg.importers.onnx_import import from_onnx

__all__ = ["ImportFailure", "from_onnx"]

_HOMES = {"ImportFailure": "teg.importers.failure", "from_onnx": "teg.importers.onnx_import"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
