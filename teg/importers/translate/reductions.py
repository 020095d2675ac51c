"""Reductions and normalizations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.batch_training import train_batch_normalization
from tapestry.teg.importers.translate.movement import pad
from tapestry.teg.importers.translate.translation import (
    OnnxTranslator,
    Translation,
    check_taps,
    normal_axis,
    plain_labels,
)

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
    """Emit one reduction over `axes`; `mean` divides by their size; `keep` keeps them with size 1."""
    value = t.value(name)
    labels = plain_labels(len(value.shape))
    target = tuple(f"k{k}" if k in axes else d for k, d in enumerate(labels) if keep or k not in axes)
    shape = [1 if k in axes else s for k, s in enumerate(value.shape) if keep or k not in axes]
    t.declare(output, shape, value.dtype)
    count = math.prod(value.shape[k] for k in axes)
    if value.dtype == "bool":
        monoid = {"max": "any", "min": "all"}.get(monoid, monoid)
    attrs = {"monoid": monoid, "scale": 1.0 / count if mean else 1.0}
    return t.emit(Compute(site, "reduce", (value.name,), output, (labels,), target, attrs))


def _reduce(t: Translation, node: OnnxNode) -> None:
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


def _global_pool(t: Translation, node: OnnxNode) -> None:
    axes = range(2, len(t.value(node.inputs[0]).shape))
    largest = node.op == "GlobalMaxPool"
    monoid = "max" if largest else "sum"
    reduce_axes(t, node.name, node.inputs[0], node.outputs[0], axes, True, monoid, mean=not largest)


def _softmax(t: Translation, node: OnnxNode) -> None:
    """Translate Softmax or LogSoftmax; before opset 13 all dimensions from the axis on are normalized together."""
    value = t.value(node.inputs[0])
    rank = len(value.shape)
    flattens = t.opset < 13
    axis = normal_axis(node, int(node.get("axis", 1 if flattens else -1)), rank)
    labels = plain_labels(rank)
    axes = labels[axis:] if flattens else labels[axis : axis + 1]
    operator = "softmax" if node.op == "Softmax" else "log_softmax"
    t.declare(node.outputs[0], value.shape, value.dtype)
    t.emit(Compute(node.name, operator, (value.name,), node.outputs[0], (labels,), labels, {"axes": axes}))


def _layer_norm(t: Translation, node: OnnxNode) -> None:
    value = t.value(node.inputs[0])
    rank = len(value.shape)
    axis = normal_axis(node, int(node.get("axis", -1)), rank)
    labels = plain_labels(rank)
    names = tuple(t.resolve(n) for n in node.inputs if n)
    for other in names[1:]:
        if t.value(other).shape != value.shape[axis:]:
            raise ImportFailure(
                f"{node.where}: {other!r} of shape {list(t.value(other).shape)} must have "
                f"the normalized shape {list(value.shape[axis:])}"
            )
    own = (labels, *(labels[axis:] for _ in names[1:]))
    attrs = {"axes": labels[axis:], "eps": float(node.get("epsilon", 1e-5))}
    t.declare(node.outputs[0], value.shape, value.dtype)
    t.emit(Compute(node.name, "layer_norm", names, node.outputs[0], own, labels, attrs))
    if any(node.outputs[1:]):
        _moments(t, node, range(axis, rank))


def _moments(t: Translation, node: OnnxNode, axes: Sequence[int]) -> None:
    """Emit the further outputs of layer normalization, read by backward passes: mean and inverse deviation."""
    value = t.value(node.inputs[0])
    mean_name, inverse_name = (
        (*node.outputs[1:], "", "")[k] or f"{node.outputs[0]}.moment{k}" for k in (0, 1)
    )
    single = "float32"
    wide = value.name
    if value.dtype != single:
        wide = t.cell(
            f"{node.name}.wide", (wide,), f"{mean_name}.wide", ("cast", single, ("input", 0)), single
        )
    mean = reduce_axes(t, f"{node.name}.mean", wide, mean_name, axes, True, "sum", True)
    away = ("sub", ("input", 0), ("input", 1))
    squares = t.cell(
        f"{node.name}.squares", (wide, mean), f"{mean_name}.squares", ("mul", away, away), single
    )
    variance = reduce_axes(
        t, f"{node.name}.variance", squares, f"{inverse_name}.variance", axes, True, "sum", True
    )
    spread = ("sqrt", ("add", ("input", 0), ("const", float(node.get("epsilon", 1e-5)))))
    t.cell(f"{node.name}.inverse", (variance,), inverse_name, ("reciprocal", spread), single)


def _batch_norm(t: Translation, node: OnnxNode) -> None:
    """Translate BatchNormalization; inference is one cell over the input and four channel vectors."""
    if node.get("training_mode", 0):
        train_batch_normalization(t, node)
        return
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


def _instance_norm(t: Translation, node: OnnxNode) -> None:
    """Translate InstanceNormalization: mean and variance over the spatial dimensions, then one cell."""
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


def _group_norm(t: Translation, node: OnnxNode) -> None:
    """Normalize groups of channels together; scale and bias are per channel (per group before opset 21)."""
    value, groups = t.value(node.inputs[0]), int(node.get("num_groups"))
    n, channels, *spatial = value.shape
    output, dtype = node.outputs[0], value.dtype
    split = t.reshape(
        f"{node.name}.groups", value.name, f"{output}.groups", (n, groups, channels // groups, *spatial)
    )
    axes = range(2, len(value.shape) + 1)
    mean = reduce_axes(t, f"{node.name}.mean", split, f"{output}.mean", axes, True, "sum", True)
    away = ("sub", ("input", 0), ("input", 1))
    squares = t.cell(f"{node.name}.squares", (split, mean), f"{output}.squares", ("mul", away, away), dtype)
    variance = reduce_axes(t, f"{node.name}.variance", squares, f"{output}.variance", axes, True, "sum", True)
    per_channel = t.value(node.inputs[1]).shape[0] == channels
    shape = (groups, channels // groups if per_channel else 1, *(1 for _ in spatial))
    scale, bias = (
        t.reshape(f"{node.name}.{what}", node.inputs[k], f"{output}.{what}", shape)
        for k, what in ((1, "scale"), (2, "offset"))
    )
    spread = ("sqrt", ("add", ("input", 2), ("const", float(node.get("epsilon", 1e-5)))))
    expr = ("add", ("mul", ("div", away, spread), ("input", 3)), ("input", 4))
    normal = t.cell(node.name, (split, mean, variance, scale, bias), f"{output}.normal", expr, dtype)
    t.reshape(f"{node.name}.join", normal, output, value.shape)


def _local_response_norm(t: Translation, node: OnnxNode) -> None:
    """Divide each channel by the squares of its neighbors: slices of the padded squares, then one cell."""
    value, size = t.value(node.inputs[0]), int(node.get("size"))
    output, dtype, rank = node.outputs[0], value.dtype, len(value.shape)
    check_taps(size)
    square = ("mul", ("input", 0), ("input", 0))
    squares = t.cell(f"{node.name}.squares", (value.name,), f"{output}.squares", square, dtype)
    before, after = (size - 1) // 2, size // 2
    low, high = ([n if d == 1 else 0 for d in range(rank)] for n in (before, after))
    padded = pad(t, f"{node.name}.pad", squares, f"{output}.pad", low, high)
    parts = []
    for k in range(size):
        ranges = [range(s) if d != 1 else range(k, k + s) for d, s in enumerate(value.shape)]
        parts.append(t.slice(f"{node.name}.{k}", padded, f"{output}.{k}", ranges))
    total: Any = ("input", 1)
    for k in range(2, size + 1):
        total = ("add", total, ("input", k))
    share = ("mul", ("const", float(node.get("alpha", 1e-4)) / size), total)
    spread = (
        "pow",
        ("add", ("const", float(node.get("bias", 1.0))), share),
        ("const", float(node.get("beta", 0.75))),
    )
    t.cell(node.name, (value.name, *parts), output, ("div", ("input", 0), spread), dtype)


def _rms_norm(t: Translation, node: OnnxNode) -> None:
    value = t.value(node.inputs[0])
    rank, output = len(value.shape), node.outputs[0]
    axes = range(normal_axis(node, int(node.get("axis", -1)), rank), rank)
    square = ("mul", ("input", 0), ("input", 0))
    squares = t.cell(f"{node.name}.squares", (value.name,), f"{output}.squares", square, value.dtype)
    mean = reduce_axes(t, f"{node.name}.mean", squares, f"{output}.mean", axes, True, "sum", True)
    spread = ("sqrt", ("add", ("input", 1), ("const", float(node.get("epsilon", 1e-5)))))
    expr = ("mul", ("div", ("input", 0), spread), ("input", 2))
    t.cell(node.name, (value.name, mean, node.inputs[1]), output, expr, value.dtype)


REDUCTIONS: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(tuple(MONOIDS), _reduce),
    OnnxTranslator(("GlobalAveragePool", "GlobalMaxPool"), _global_pool),
    OnnxTranslator(("Softmax", "LogSoftmax"), _softmax),
    OnnxTranslator(("LayerNormalization",), _layer_norm),
    OnnxTranslator(("BatchNormalization",), _batch_norm),
    OnnxTranslator(("InstanceNormalization",), _instance_norm),
    OnnxTranslator(("GroupNormalization",), _group_norm),
    OnnxTranslator(("LRN",), _local_response_norm),
    OnnxTranslator(("RMSNormalization",), _rms_norm),
)
