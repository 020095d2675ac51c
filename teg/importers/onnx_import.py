"""Import of ONNX models: read, translate, factor, lower."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from teg.graph import Graph
from teg.importers.factoring import Factoring
from teg.importers.lowering.lower import lower
from teg.importers.onnx_reader import read_model
from teg.importers.translate import translate


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
    program = translate(read_model(source, dims, name))
    return lower(program, Factoring(program))
