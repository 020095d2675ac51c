"""Front ends: programs of other formats as graphs. A format's library is loaded when it is called for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teg.graph import Graph
from teg.importers.failure import ImportFailure

__all__ = ["ImportFailure", "from_onnx"]


def from_onnx(
    source: str | Path | bytes | Any, *, dims: Mapping[str, int] | None = None, name: str | None = None
) -> Graph:
    """The graph of an ONNX model, given as a path, as bytes or as a `ModelProto`.

    `dims` gives sizes to symbolic dimensions. Small constants are folded, masks and other large constants
    become generators, reshapes and transpositions are absorbed into factored tensors: a source or sink whose
    shape was refined says the original one in its attribute `logical_shape` (see `teg.interface`).

    Raises:
        ImportFailure: the file is missing, truncated or foreign, a dimension has no size, or operators are
            unsupported; the message is one line that says which and where.
    """
    from teg.importers.onnx_import import import_onnx

    return import_onnx(source, dims, name)
