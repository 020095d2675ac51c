"""Front ends: programs of other formats as graphs. A format's library is loaded when it is called for."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teg.graph import Graph
from teg.importers.failure import ImportFailure

__all__ = ["ImportFailure", "from_loom", "from_onnx"]


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


def from_loom(source: str | Path | bytes | Mapping[str, Any], *, name: str | None = None) -> Graph:
    """The graph of a Loom document (Tensor, Operation and Application nodes): a path, text, bytes or JSON values.

    Kernels that are known here become operators; others become blocks of the operator `external`, which keep
    their signature but refuse to be evaluated. Shards are checked and left out.

    Raises:
        ImportFailure: the file is missing or no JSON, or the graph breaks a constraint of its dialect (then an
            `InvalidLoom` that lists every issue).
    """
    from teg.importers.loom.reading import import_loom

    return import_loom(source, name)
