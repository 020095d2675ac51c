"""Convolution: padding made explicit, unread margins cropped, biases added separately."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, plain_labels
from tapestry.teg.operators.windows import WindowGeometry


def geometry_of(node: OnnxNode, spatial: Sequence[int], kernel: Sequence[int]) -> WindowGeometry:
    """Compute the windows that a node's attributes describe.

    Raises:
        ImportFailure: none fits.
    """
    rank = len(spatial)
    strides = tuple(int(s) for s in node.get("strides") or (1,) * rank)
    dilations = tuple(int(d) for d in node.get("dilations") or (1,) * rank)
    extents = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    mode = node.get("auto_pad", "NOTSET")
    pads = tuple(int(p) for p in node.get("pads") or (0,) * 2 * rank)
    if mode.startswith("SAME"):
        out = tuple(-(-s // t) for s, t in zip(spatial, strides, strict=True))
        needed = [
            max((o - 1) * t + e - s, 0) for o, t, e, s in zip(out, strides, extents, spatial, strict=True)
        ]
        small, large = [n // 2 for n in needed], [n - n // 2 for n in needed]
        low, high = (small, large) if mode == "SAME_UPPER" else (large, small)
    else:
        low, high = (list(pads[:rank]), list(pads[rank:])) if mode == "NOTSET" else ([0] * rank, [0] * rank)
        room = [s + a + b - e for s, a, b, e in zip(spatial, low, high, extents, strict=True)]
        ceil = bool(node.get("ceil_mode", 0))
        out = tuple((-(-r // t) if ceil else r // t) + 1 for r, t in zip(room, strides, strict=True))
        if ceil:  # a window must begin inside the tensor or its lower padding
            out = tuple(
                o - ((o - 1) * t >= s + a) for o, t, s, a in zip(out, strides, spatial, low, strict=True)
            )
    if any(o < 1 for o in out):
        raise ImportFailure(f"{node.where}: no window of {list(kernel)} fits into {list(spatial)}")
    return WindowGeometry(tuple(kernel), strides, dilations, tuple(low), tuple(high), out)


def _crop(t: Translation, node: OnnxNode, geometry: WindowGeometry) -> tuple[str, WindowGeometry]:
    """Return the input without margins that no window reads, and the geometry with the padding that is read."""
    value = t.value(node.inputs[0])
    kept, read = geometry.cropped(value.shape[2:])
    ranges = [range(n) for n in (*value.shape[:2], *kept)]
    cropped = t.slice(f"{node.name}.crop", value.name, f"{node.outputs[0]}.crop", ranges)
    return cropped, read


def _labels(rank: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(f"x{k}" for k in range(rank)), tuple(f"y{k}" for k in range(rank))


def convolve(t: Translation, node: OnnxNode) -> None:
    """Translate ONNX's Conv; the elements may be integers too."""
    value, weight = t.value(node.inputs[0]), t.value(node.inputs[1])
    rank, groups = len(value.shape) - 2, int(node.get("group", 1))
    if not 1 <= rank <= 3 or len(weight.shape) != rank + 2 or value.shape[1] != weight.shape[1] * groups:
        raise ImportFailure(
            f"{node.where}: weights {list(weight.shape)} in {groups} groups do not fit {list(value.shape)}"
        )
    name, g = _crop(t, node, geometry_of(node, value.shape[2:], weight.shape[2:]))
    read, written = _labels(rank)
    taps = tuple(f"t{k}" for k in range(rank))
    channels = "c" if groups == 1 else "cg"
    labels = (("n", "c", *read), ("o", channels, *taps))
    target = ("n", "o", *written)
    attrs: dict[str, Any] = {**g.attributes, "groups": groups}
    bias = node.inputs[2] if len(node.inputs) > 2 else ""
    output = f"{node.outputs[0]}.product" if bias else node.outputs[0]
    shape = (value.shape[0], weight.shape[0], *g.out)
    whole = frozenset((*labels[0], *labels[1], *target))
    t.declare(output, shape, value.dtype)
    t.emit(Compute(node.name, "conv", (name, weight.name), output, labels, target, attrs, whole))
    if bias:
        dims = plain_labels(len(shape))
        add = {"expr": ("add", ("input", 0), ("input", 1)), "dtype": value.dtype}
        t.declare(node.outputs[0], shape, value.dtype)
        names = (output, t.resolve(bias))
        t.emit(Compute(f"{node.name}.bias", "cell", names, node.outputs[0], (dims, dims[1:2]), dims, add))


WINDOWS: tuple[OnnxTranslator, ...] = (OnnxTranslator(("Conv",), convolve),)
