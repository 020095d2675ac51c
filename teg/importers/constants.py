"""Constant folding of nodes whose inputs are all small known values; broadcast dimensions stay compressed."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.literals import affine, literal
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import FOLD_LIMIT_BYTES, Literal

__all__ = ["ELEMENTWISE", "affine", "evaluate", "fold", "literal"]

# Applied element by element: compressed inputs give a compressed result.
ELEMENTWISE = frozenset(
    (
        *(
            "Abs",
            "Add",
            "And",
            "BitShift",
            "BitwiseAnd",
            "BitwiseNot",
            "BitwiseOr",
            "BitwiseXor",
            "Cast",
            "Ceil",
        ),
        *(
            "Clip",
            "Cos",
            "Div",
            "Equal",
            "Erf",
            "Exp",
            "Floor",
            "Greater",
            "GreaterOrEqual",
            "Identity",
            "IsInf",
        ),
        *("IsNaN", "Less", "LessOrEqual", "Log", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pow"),
        *(
            "Reciprocal",
            "Relu",
            "Round",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sqrt",
            "Sub",
            "Sum",
            "Tan",
            "Tanh",
            "Where",
            "Xor",
        ),
    )
)


def fold(
    node: OnnxNode, inputs: Sequence[Literal | None], versions: Mapping[str, int]
) -> tuple[Literal, ...] | None:
    """Compute the outputs of a node with known inputs; None where they would be large.

    A result is large beyond 64 KiB, unless it is no larger than the inputs it replaces.

    Raises:
        ImportFailure: the node cannot be evaluated.
    """
    compressed = node.op in ELEMENTWISE
    given = [None if c is None else c.array if compressed else np.array(c.full) for c in inputs]
    limit = max(FOLD_LIMIT_BYTES, sum(c.array.nbytes for c in inputs if c is not None))
    if compressed and _elementwise_bytes(given) > limit:
        return None
    results = evaluate(node, given, versions)
    if sum(r.nbytes for r in results) > limit:
        return None
    if not compressed:
        return tuple(literal(r) for r in results)
    shape = np.broadcast_shapes(*(c.shape for c in inputs if c is not None))
    packed = [literal(r.reshape((1,) * (len(shape) - r.ndim) + r.shape)) for r in results]
    return tuple(Literal(c.array, shape) for c in packed)


def _elementwise_bytes(arrays: Sequence[np.ndarray | None]) -> int:
    """Compute a lower bound of the result's size: booleans take one byte."""
    known = [a for a in arrays if a is not None]
    return int(np.prod(np.broadcast_shapes(*(a.shape for a in known)), dtype=np.int64))


def evaluate(
    node: OnnxNode, inputs: Sequence[np.ndarray | None], versions: Mapping[str, int]
) -> tuple[np.ndarray, ...]:
    """Compute the node's outputs by ONNX's own reference implementation, with operators of these versions.

    Raises:
        ImportFailure: the reference refuses.
    """
    helper = onnx.helper
    names = [n for n in node.inputs if n]
    feeds: Mapping[str, np.ndarray] = {
        n: a for n, a in zip(node.inputs, inputs, strict=True) if n and a is not None
    }
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(feeds[n].dtype), feeds[n].shape)
        for n in dict.fromkeys(names)
    ]
    wanted = [o for o in node.outputs if o]
    results = [helper.make_empty_tensor_value_info(o) for o in wanted]
    graph = helper.make_graph([node.proto], "fold", infos, results)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(d, v) for d, v in versions.items()])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outputs = ReferenceEvaluator(model).run(wanted, dict(feeds))
    except Exception as error:  # the reference raises whatever its operators raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImportFailure(f"{node.where} has constant inputs but cannot be evaluated: {reason}") from error
    return tuple(np.asarray(o) for o in outputs)
