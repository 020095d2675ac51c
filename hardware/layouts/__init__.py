"""Physical layouts of tensors: XLA's tiles, CuTe, tt-metal and ttnn, each exact, behind one protocol.

Sizes (`native`) and dimension orders (`order`) are light; the notations are loaded when they are requested.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tapestry.hardware.layouts.layout import Layout, LayoutError
from tapestry.hardware.layouts.notation import Notation

if TYPE_CHECKING:
    from tapestry.hardware.layouts.notations import NOTATIONS as NOTATIONS
    from tapestry.hardware.layouts.notations import parse_layout as parse_layout

__all__ = ["NOTATIONS", "Layout", "LayoutError", "Notation", "parse_layout"]


def __getattr__(name: str) -> Any:
    """Load names that need every notation on first use, so that the device catalog loads without them."""
    if name in ("NOTATIONS", "parse_layout"):
        return getattr(import_module("tapestry.hardware.layouts.notations"), name)
    raise AttributeError(f"module 'tapestry.hardware.layouts' has no attribute {name!r}")
