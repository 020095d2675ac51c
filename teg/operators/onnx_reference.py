"""Evaluation of ONNX operators by ONNX's own reference implementation, one node at a time.

A node comes as plain values (see `teg.operators.onnx_fallback`): tensors, numbers and text, no graphs, no files. Only
the code of the installed `onnx` package is run, and nothing that is supplied with the program.
"""

from __future__ import annotations

import base64
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from onnx import AttributeProto, ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tapestry.teg.dtypes import numpy_dtype

Setting = tuple[str, str, Any]

# Kinds of settings that hold text, numbers or lists of them, by their ONNX attribute type.
PLAIN_KINDS = {
    "float": AttributeProto.FLOAT,
    "int": AttributeProto.INT,
    "string": AttributeProto.STRING,
    "floats": AttributeProto.FLOATS,
    "ints": AttributeProto.INTS,
    "strings": AttributeProto.STRINGS,
}


class ReferenceCall(NamedTuple):
    """One node: its operator, the operand at each input (-1: none), and the outputs that are made."""

    op: str
    domain: str
    opset: int
    operands: tuple[int, ...]
    made: tuple[bool, ...]
    settings: tuple[Setting, ...]


def run_reference(call: ReferenceCall, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Compute the outputs that the node makes by the reference implementation.

    Raises:
        ValueError: the reference has no such operator, or refuses the operands.
    """
    session = _session(call, tuple(a.dtype.name for a in arrays))
    feeds = {f"operand{k}": a for k, a in enumerate(arrays)}
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = session.run(None, feeds)
    except Exception as error:  # the reference raises whatever its operators raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"ONNX's reference of {call.op} refuses its operands: {reason}") from error
    return tuple(np.asarray(r) for r in results)


def check_known(call: ReferenceCall, dtypes: Sequence[str]) -> None:
    """Check that the reference can run a call with operands of these element types.

    Raises:
        ValueError: it cannot; the message says why.
    """
    _session(call, tuple(dtypes))


def node_of(call: ReferenceCall) -> NodeProto:
    """Convert the call to an ONNX node, its values called `operandN` and `outputN`."""
    inputs = [f"operand{k}" if k >= 0 else "" for k in call.operands]
    outputs = [f"output{k}" if made else "" for k, made in enumerate(call.made)]
    node = helper.make_node(call.op, inputs, outputs, domain=call.domain)
    node.attribute.extend(_attribute(*setting) for setting in call.settings)
    return node


def model_of(call: ReferenceCall, dtypes: Sequence[str]) -> ModelProto:
    """Build a model of the node alone, its operands of these element types and any shape."""
    codes = [helper.np_dtype_to_tensor_dtype(numpy_dtype(d)) for d in dtypes]
    infos = [helper.make_tensor_value_info(f"operand{k}", code, None) for k, code in enumerate(codes)]
    node = node_of(call)
    results = [helper.make_empty_tensor_value_info(o) for o in node.output if o]
    graph = helper.make_graph([node], "one", infos, results)
    versions = {"": _standard_opset(call), call.domain: call.opset}
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in versions.items()])


def _standard_opset(call: ReferenceCall) -> int:
    """Return the version of the standard operators in which function bodies of another domain are written."""
    return call.opset if not call.domain else 21


@lru_cache(maxsize=1024)
def _session(call: ReferenceCall, dtypes: tuple[str, ...]) -> Any:
    try:
        return ReferenceEvaluator(model_of(call, dtypes))
    except Exception as error:  # an operator that it does not know, or a setting of the wrong type
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(f"ONNX's reference cannot run {call.op} of opset {call.opset}: {reason}") from error


def _attribute(name: str, kind: str, value: Any) -> AttributeProto:
    if kind == "tensor":
        dtype, shape, text = value
        array = np.frombuffer(base64.b64decode(text), numpy_dtype(dtype)).reshape(shape)
        return helper.make_attribute(name, numpy_helper.from_array(array))
    return helper.make_attribute(name, list(value) if kind.endswith("s") else value, None, PLAIN_KINDS[kind])
