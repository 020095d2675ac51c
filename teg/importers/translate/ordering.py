"""ONNX operators that sort elements or work along a dimension: TopK, ArgMax, CumSum, Hardmax, ..."""

from __future__ import annotations

import math

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.positions import arg_reduce, arg_sort, gather, scan, take_along
from tapestry.teg.importers.translate.translation import (
    OnnxTranslator,
    Translation,
    normal_axis,
    plain_labels,
)


def _top_k(t: Translation, node: OnnxNode) -> None:
    """Find positions by a sort and gather values there; with `sorted=0` any order is valid."""
    value = t.value(node.inputs[0])
    axis = normal_axis(node, int(node.get("axis", -1)), len(value.shape))
    (count,) = t.integers(node, 1, "k") or (0,)
    if not 0 <= count <= value.shape[axis]:
        raise ImportFailure(f"{node.where}: k = {count} of {value.shape[axis]} elements along axis {axis}")
    values, positions = (*node.outputs, "")[:2]
    found = positions or f"{values}.positions"
    arg_sort(t, node.name, value.name, found, axis, count, bool(node.get("largest", 1)))
    if values:
        take_along(t, f"{node.name}.values", value.name, found, values, axis)


def _arg(t: Translation, node: OnnxNode) -> None:
    value, output = t.value(node.inputs[0]), node.outputs[0]
    axis = normal_axis(node, int(node.get("axis", 0)), len(value.shape))
    keep = bool(node.get("keepdims", 1))
    kind, last = ("max" if node.op == "ArgMax" else "min"), bool(node.get("select_last_index", 0))
    found = arg_reduce(t, node.name, value.name, f"{output}.flat" if keep else output, axis, kind, last)
    if keep:
        shape = [1 if k == axis else s for k, s in enumerate(value.shape)]
        t.reshape(f"{node.name}.keep", found, output, shape)


def _cumulate(t: Translation, node: OnnxNode) -> None:
    value = t.value(node.inputs[0])
    axes = t.constant(node, 1, "axis")
    axis = normal_axis(node, 0 if axes is None else int(axes.reshape(-1)[0]), len(value.shape))
    monoid = "sum" if node.op == "CumSum" else "prod"
    exclusive, reverse = bool(node.get("exclusive", 0)), bool(node.get("reverse", 0))
    scan(t, node.name, value.name, node.outputs[0], axis, monoid, exclusive, reverse)


def _hardmax(t: Translation, node: OnnxNode) -> None:
    """Return 1 at the first of the greatest elements; before version 13 over all dimensions from the axis on."""
    value, output = t.value(node.inputs[0]), node.outputs[0]
    old, rank = t.opset < 13, len(value.shape)
    axis = normal_axis(node, int(node.get("axis", 1 if old else -1)), rank)
    name = value.name
    if old:
        rows = (math.prod(value.shape[:axis]), math.prod(value.shape[axis:]))
        name, axis = t.reshape(f"{node.name}.rows", name, f"{output}.rows", rows), 1
    shape = t.value(name).shape
    found = arg_reduce(t, f"{node.name}.place", name, f"{output}.place", axis, "max")
    labels = plain_labels(len(shape))
    inner = f"{output}.hot" if old else output
    t.declare(inner, shape, value.dtype)
    expr = ("cast", value.dtype, ("eq", ("input", 0), ("index", labels[axis])))
    read = (*labels[:axis], *labels[axis + 1 :])
    attrs = {"expr": expr, "dtype": value.dtype}
    t.emit(Compute(node.name, "cell", (found,), inner, (read,), labels, attrs))
    if old:
        t.reshape(f"{node.name}.shape", inner, output, value.shape)


def _reverse_sequence(t: Translation, node: OnnxNode) -> None:
    """Reverse the first `length` elements of each batch entry: read at positions computed from the lengths."""
    value, output = t.value(node.inputs[0]), node.outputs[0]
    time, batch = int(node.get("time_axis", 0)), int(node.get("batch_axis", 1))
    lengths = t.value(node.inputs[1])
    place, length = ("index", "time"), ("cast", "int64", ("input", 0))
    back = ("sub", ("sub", length, ("const", 1)), place)
    expr = ("where", ("lt", place, length), back, place)
    positions = t.declare(f"{output}.positions", (value.shape[batch], value.shape[time]), "int64")
    attrs = {"expr": expr, "dtype": "int64"}
    labels = (("batch",),)
    t.emit(
        Compute(
            f"{node.name}.positions", "cell", (lengths.name,), positions, labels, ("batch", "time"), attrs
        )
    )
    gather(t, node.name, value.name, positions, output, time, [(batch, 0)])


ORDERING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("TopK",), _top_k),
    OnnxTranslator(("ArgMax", "ArgMin"), _arg),
    OnnxTranslator(("CumSum", "CumProd"), _cumulate),
    OnnxTranslator(("Hardmax",), _hardmax),
    OnnxTranslator(("ReverseSequence",), _reverse_sequence),
)
