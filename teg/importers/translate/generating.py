"""ONNX operators whose elements are computed from their coordinates: OneHot, EyeLike, Range."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, normal_axis


def _one_hot(t: Translation, node: OnnxNode) -> None:
    """Select `values[1]` at the position, `values[0]` elsewhere; positions outside `[-depth, depth)` match nowhere."""
    index, values, output = t.value(node.inputs[0]), t.value(node.inputs[2]), node.outputs[0]
    depth = t.constant(node, 1, "depth")
    if depth is None:
        raise ImportFailure(f"{node.where} has no depth")
    size, rank = int(depth.reshape(-1)[0]), len(index.shape) + 1
    axis = normal_axis(node, int(node.get("axis", -1)), rank)
    labels = tuple(f"d{k}" for k in range(rank))
    read = (*labels[:axis], *labels[axis + 1 :])
    place = ("cast", "int64", ("input", 0))
    wrapped = ("where", ("lt", place, ("const", 0)), ("add", place, ("const", size)), place)
    parts = [_element(t, node, values.name, k) for k in (1, 0)]
    expr = ("where", ("eq", wrapped, ("index", labels[axis])), ("input", 1), ("input", 2))
    t.declare(output, (*index.shape[:axis], size, *index.shape[axis:]), values.dtype)
    attrs = {"expr": expr, "dtype": values.dtype}
    t.emit(Compute(node.name, "cell", (index.name, *parts), output, (read, ("",), ("",)), labels, attrs))


def _element(t: Translation, node: OnnxNode, name: str, k: int) -> str:
    """Take one element of a line, as a line of size 1."""
    output, known = f"{node.outputs[0]}.values.{k}", t.literal(name)
    if known is not None:
        return t.add_literal(output, known.full[k : k + 1])
    return t.slice(f"{node.name}.value", name, output, [range(k, k + 1)])


def _eye_like(t: Translation, node: OnnxNode) -> None:
    value = t.value(node.inputs[0])
    given = node.get("dtype")
    dtype = value.dtype if given is None else str(helper.tensor_dtype_to_np_dtype(int(given)))
    shifted = ("add", ("index", "d0"), ("const", int(node.get("k", 0))))
    t.declare(node.outputs[0], value.shape, dtype)
    attrs = {"expr": ("cast", dtype, ("eq", shifted, ("index", "d1"))), "dtype": dtype}
    t.emit(Compute(node.name, "cell", (), node.outputs[0], (), ("d0", "d1"), attrs))


def _range(t: Translation, node: OnnxNode) -> None:
    """Emit a long progression as a generator; short ones were computed at import."""
    bounds = [t.constant(node, k, name) for k, name in enumerate(("start", "limit", "delta"))]
    start, limit, delta = (np.asarray(b).reshape(-1)[0] for b in bounds)
    dtype = np.asarray(bounds[0]).dtype.name
    count = max(math.ceil((limit - start) / delta), 0)
    whole = np.issubdtype(np.dtype(dtype), np.integer)
    number = int if whole else float
    line = ("add", ("const", number(start)), ("mul", ("index", "d0"), ("const", number(delta))))
    t.declare(node.outputs[0], (count,), dtype)
    attrs = {"expr": ("cast", dtype, line), "dtype": dtype}
    t.emit(Compute(node.name, "cell", (), node.outputs[0], (), ("d0",), attrs))


GENERATING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("OneHot",), _one_hot),
    OnnxTranslator(("EyeLike",), _eye_like),
    OnnxTranslator(("Range",), _range),
)
