"""Comparison of our shapes and element types of an ONNX model's values with those that ONNX's own inference gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from tapestry.teg.importers.onnx_reader import Model, read_model
from tapestry.teg.importers.onnx_tensors import element_type
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate import translation_of


def shape_differences(source: str | Path | Any) -> tuple[int, list[str]]:
    """Count the values that ONNX infers a static shape for, and list a line for each whose type differs here.

    A type is shape and element type. Values that the import computes away (expanded functions, nodes whose results
    nobody reads) do not count.
    """
    proto = onnx.load(source, load_external_data=False) if isinstance(source, (str, Path)) else source
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=False, data_prop=True).graph
    ours = _translated_values(read_model(source))
    compared, wrong = 0, []
    for info in (*inferred.value_info, *inferred.output):
        kind = info.type.tensor_type
        static = kind.HasField("shape") and all(d.HasField("dim_value") for d in kind.shape.dim)
        if not static or info.name not in ours:
            continue
        compared += 1
        shape = tuple(int(d.dim_value) for d in kind.shape.dim)
        found = ours[info.name]
        dtype = element_type(kind.elem_type, f"value {info.name!r}")
        if (found.shape, found.dtype) != (shape, dtype):
            wrong.append(
                f"value {info.name!r} is {found.dtype}{list(found.shape)}, ONNX infers {dtype}{list(shape)}"
            )
    return compared, wrong


def _translated_values(model: Model) -> dict[str, Value]:
    """Return the shape and element type here of every value that a node produces, by the model's name for it."""
    translation = translation_of(model)
    made = {o for node in model.nodes for o in node.outputs if o}
    return {
        name: translation.value(name)
        for name in made
        if translation.resolve(name) in translation.program.values
    }
