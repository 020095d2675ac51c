"""ONNX's own shape inference for one node, given the types of its operands and their known values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.onnx_tensors import checked_shape, element_type
from tapestry.teg.importers.program import Literal, Value

# Known operands up to this size help the inference; larger ones are no shapes.
SHAPE_LIMIT_BYTES = 64 * 1024

InferredOutput = tuple[tuple[int, ...], str]


def infer_types(
    node: OnnxNode, versions: Mapping[str, int], operands: Mapping[str, tuple[Value, Literal | None]]
) -> dict[str, Any]:
    """Infer the types of the node's outputs by name, as ONNX represents them.

    Raises:
        ImportFailure: the operands do not fit together.
    """
    infos, known = [], []
    for name, (value, literal) in operands.items():
        code = helper.np_dtype_to_tensor_dtype(numpy_dtype(value.dtype))
        infos.append(helper.make_tensor_value_info(name, code, value.shape))
        if literal is not None and value.size * numpy_dtype(value.dtype).itemsize <= SHAPE_LIMIT_BYTES:
            known.append(numpy_helper.from_array(np.array(literal.full, order="C"), name))
    results = [helper.make_empty_tensor_value_info(o) for o in node.outputs if o]
    graph = helper.make_graph([node.proto], "one", infos, results, known)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in versions.items()])
    try:
        outputs = onnx.shape_inference.infer_shapes(model, data_prop=True).graph.output
    except Exception as error:  # inference errors, and those of operators that break while inferring
        raise ImportFailure(
            f"{node.where}: its operands do not fit together: {' '.join(str(error).split())}"
        ) from None
    return {info.name: info.type for info in outputs}


def static_type(kind: Any, node: OnnxNode) -> InferredOutput | None:
    """Return shape and element type of a type that states them fully; None for one that does not.

    Raises:
        ImportFailure: it is no tensor.
    """
    if kind.WhichOneof("value") not in (None, "tensor_type"):
        raise ImportFailure(
            f"{node.where} makes a {kind.WhichOneof('value').removesuffix('_type')}, not a tensor"
        )
    tensor = kind.tensor_type
    if tensor.elem_type == onnx.TensorProto.UNDEFINED or not tensor.HasField("shape"):
        return None
    if not all(d.HasField("dim_value") for d in tensor.shape.dim):
        return None
    shape = checked_shape([d.dim_value for d in tensor.shape.dim], f"an output of {node.where}")
    return shape, element_type(tensor.elem_type, node.where)
