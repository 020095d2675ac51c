"""Import of ONNX models in four stages: read, translate, factor, lower."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tapestry.teg.graph import Graph
from tapestry.teg.importers.absorbing import absorb_transpositions
from tapestry.teg.importers.factoring import Factoring
from tapestry.teg.importers.failure import ExternalDataError, ImportFailure
from tapestry.teg.importers.lowering.lower import lower
from tapestry.teg.importers.onnx_reader import read_model
from tapestry.teg.importers.translate import translate


def import_onnx(
    source: Any,
    dims: Mapping[str, int] | None,
    name: str | None,
    external_data: str | Path | None = None,
) -> Graph:
    """Import a model as a graph; see `teg.importers.from_onnx`."""
    try:
        model = read_model(source, dims, name, external_data)
    except ExternalDataError as error:
        raise (error.at(Path(source)) if isinstance(source, (str, Path)) else error) from None
    program = absorb_transpositions(translate(model))
    try:
        return lower(program, Factoring(program))
    except ValueError as error:  # an operator refuses attributes that the model states
        raise ImportFailure(f"{model.name}: {' '.join(str(error).split())}") from error
    except (KeyError, IndexError, TypeError, AssertionError, OverflowError, RecursionError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ImportFailure(
            f"{model.name} cannot be laid out, perhaps because it is damaged ({reason})"
        ) from error
