"""Reductions and normalisations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from teg.importers.failure import ImportFailure
from teg.importers.onnx_reader import Node
from teg.importers.program import Compute
from teg.importers.translate.translation import Translation, Translator, normal_axis, plain_labels

MONOIDS = {
    "ReduceSum": "sum",
    "ReduceMean": "sum",
    "ReduceMax": "max",
    "ReduceMin": "min",
    "ReduceProd": "prod",
    "ReduceLogSumExp": "logsumexp",
    "ReduceSumSquare": "sum",
    "ReduceL1": "sum",
    "ReduceL2": "sum",
    "ReduceLogSum": "sum",
}
BEFORE: dict[str, Any] = {
    "ReduceSumSquare": ("mul", ("input", 0), ("input", 0)),
    "ReduceL2": ("mul", ("input", 0), ("input", 0)),
    "ReduceL1": ("abs", ("input", 0)),
}
AFTER: dict[str, Any] = {"ReduceL2": ("sqrt", ("input", 0)), "ReduceLogSum": ("log", ("input", 0))}


def reduce_axes(
    t: Translation,
    site: str,
    name: str,
    output: str,
    axes: Sequence[int],
    keep: bool,
    monoid: str,
    mean: bool = False,
) -> str:
    """One reduction over `axes`; `mean` divides by their size; `keep` leaves them with size 1."""
    value = t.value(name)
    labels = plain_labels(len(value.shape))
    target = tuple(f"k{k}" if k in axes else d for k, d in enumerate(labels) if keep or k not in axes)
    shape = [1 if k in axes else s for k, s in enumerate(value.shape) if keep or k not in axes]
    t.declare(output, shape, value.dtype)
    count = math.prod(value.shape[k] for k in axes)
    attrs = {"monoid": monoid, "scale": 1.0 / count if mean else 1.0}
    return t.emit(Compute(site, "reduce", (value.name,), output, (labels,), target, attrs))


def _reduce(t: Translation, node: Node) -> None:
    value = t.value(node.inputs[0])
    rank = len(value.shape)
    given = t.integers(node, 1, "axes")
    if not given and node.get("noop_with_empty_axes", 0):
        t.alias(node.outputs[0], value.name)
        return
    axes = sorted({normal_axis(node, a, rank) for a in given}) if given else list(range(rank))
    name, output = value.name, node.outputs[0]
    if node.op in BEFORE:
        name = t.cell(f"{node.name}.each", (name,), f"{output}.each", BEFORE[node.op], value.dtype)
    inner = f"{output}.reduced" if node.op in AFTER else output
    keep, mean = bool(node.get("keepdims", 1)), node.op == "ReduceMean"
    site = f"{node.name}.reduce" if node.op in AFTER else node.name
    reduce_axes(t, site, name, inner, axes, keep, MONOIDS[node.op], mean)
    if node.op in AFTER:
        t.cell(node.name, (inner,), output, AFTER[node.op], value.dtype)


def _global_pool(t: Translation, node: Node) -> None:
    axes = range(2, len(t.value(node.inputs[0]).shape))
    largest = node.op == "GlobalMaxPool"
    monoid = "max" if largest else "sum"
    reduce_axes(t, node.name, node.inputs[0], node.outputs[0], axes, True, monoid, mean=not largest)


def _softmax(t: Translation, node: Node) -> None:
    """Before opset 13 all dimensions from the axis on are normalised together."""
    value = t.value(node.inputs[0])
    rank = len(value.shape)
    flattens = t.opset < 13
    axis = normal_axis(node, int(node.get("axis", 1 if flattens else -1)), rank)
    labels = plain_labels(rank)
    axes = labels[axis:] if flattens else labels[axis : axis + 1]
    operator = "softmax" if node.op == "Softmax" else "log_softmax"
    t.declare(node.outputs[0], value.shape, value.dtype)
    t.emit(Compute(node.name, operator, (value.name,), node.outputs[0], (labels,), labels, {"axes": axes}))


def _layer_norm(t: Translation, node: Node) -> None:
    value = t.value(node.inputs[0])
    rank = len(value.shape)
    axis = normal_axis(node, int(node.get("axis", -1)), rank)
    labels = plain_labels(rank)
    names = tuple(t.resolve(n) for n in node.inputs if n)
    odd = [n for n in names[1:] if t.value(n).shape != value.shape[axis:]]
    if odd:
        raise ImportFailure(
            f"{node.where}: {odd[0]!r} of shape {list(t.value(odd[0]).shape)} must have the normalised shape "
            f"{list(value.shape[axis:])}"
        )
    own = (labels, *(labels[axis:] for _ in names[1:]))
    attrs = {"axes": labels[axis:], "eps": float(node.get("epsilon", 1e-5))}
    t.declare(node.outputs[0], value.shape, value.dtype)
    t.emit(Compute(node.name, "layer_norm", names, node.outputs[0], own, labels, attrs))


def _batch_norm(t: Translation, node: Node) -> None:
    """Inference: one cell over the input and four channel vectors."""
    if node.get("training_mode", 0):
        raise ImportFailure(f"{node.where} is unsupported in training mode")
    if not node.get("spatial", 1):
        raise ImportFailure(f"{node.where} is unsupported with spatial=0")
    value = t.value(node.inputs[0])
    labels = plain_labels(len(value.shape))
    x, scale, bias, mean, variance = (("input", k) for k in range(5))
    spread = ("sqrt", ("add", variance, ("const", float(node.get("epsilon", 1e-5)))))
    expr = ("add", ("mul", ("div", ("sub", x, mean), spread), scale), bias)
    names = tuple(t.resolve(n) for n in node.inputs)
    t.declare(node.outputs[0], value.shape, value.dtype)
    own = (labels, *((labels[1],),) * 4)
    attrs = {"expr": expr, "dtype": value.dtype}
    t.emit(Compute(node.name, "cell", names, node.outputs[0], own, labels, attrs))


def _instance_norm(t: Translation, node: Node) -> None:
    """Mean and variance over the spatial dimensions, then one cell."""
    value = t.value(node.inputs[0])
    rank, output, dtype = len(value.shape), node.outputs[0], value.dtype
    spatial = range(2, rank)
    mean = reduce_axes(t, f"{node.name}.mean", value.name, f"{output}.mean", spatial, True, "sum", True)
    square = ("mul", ("sub", ("input", 0), ("input", 1)), ("sub", ("input", 0), ("input", 1)))
    squares = t.cell(f"{node.name}.squares", (value.name, mean), f"{output}.squares", square, dtype)
    variance = reduce_axes(
        t, f"{node.name}.variance", squares, f"{output}.variance", spatial, True, "sum", True
    )
    labels = plain_labels(rank)
    flat = (*labels[:2], *("" for _ in spatial))
    x, m, v, scale, bias = (("input", k) for k in range(5))
    spread = ("sqrt", ("add", v, ("const", float(node.get("epsilon", 1e-5)))))
    expr = ("add", ("mul", ("div", ("sub", x, m), spread), scale), bias)
    names = (value.name, mean, variance, t.resolve(node.inputs[1]), t.resolve(node.inputs[2]))
    own = (labels, flat, flat, (labels[1],), (labels[1],))
    t.declare(output, value.shape, dtype)
    t.emit(Compute(node.name, "cell", names, output, own, labels, {"expr": expr, "dtype": dtype}))


def _rms_norm(t: Translation, node: Node) -> None:
    value = t.value(node.inputs[0])
    rank, output = len(value.shape), node.outputs[0]
    axes = range(normal_axis(node, int(node.get("axis", -1)), rank), rank)
    square = ("mul", ("input", 0), ("input", 0))
    squares = t.cell(f"{node.name}.squares", (value.name,), f"{output}.squares", square, value.dtype)
    mean = reduce_axes(t, f"{node.name}.mean", squares, f"{output}.mean", axes, True, "sum", True)
    spread = ("sqrt", ("add", ("input", 1), ("const", float(node.get("epsilon", 1e-5)))))
    expr = ("mul", ("div", ("input", 0), spread), ("input", 2))
    t.cell(node.name, (value.name, mean, node.inputs[1]), output, expr, value.dtype)


REDUCTIONS: tuple[Translator, ...] = (
    Translator(tuple(MONOIDS), _reduce),
    Translator(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    Translator(("Softmax", "LogSoftmax"), _softmax),
    Translator(("LayerNormalization",), _layer_norm),
    Translator(("BatchNormalization",), _batch_norm),
    Translator(("InstanceNormalization",), _instance_norm),
    Translator(("RMSNormalization",), _rms_norm),
)
