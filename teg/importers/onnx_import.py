"""Import of ONNX models in four stages: read, translate, factor, lower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from teg.graph import Graph
from teg.importers.absorbing import absorb_transpositions
from teg.importers.factoring import Factoring
from teg.importers.lowering.lower import lower
from teg.importers.onnx_reader import read_model
from teg.importers.translate import translate


def import_onnx(source: Any, dims: Mapping[str, int] | None, name: str | None) -> Graph:
    """The graph of a model; see `teg.importers.from_onnx`."""
    program = absorb_transpositions(translate(read_model(source, dims, name)))
    return lower(program, Factoring(program))
