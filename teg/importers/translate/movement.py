"""ONNX operators that only move elements; most of them later become views and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute
from tapestry.teg.importers.translate.translation import (
    OnnxTranslator,
    Translation,
    normal_axis,
    plain_labels,
)
from tapestry.teg.padding_modes import padding_parts


def _transpose(t: Translation, node: OnnxNode) -> None:
    shape = t.value(node.inputs[0]).shape
    order = [int(k) for k in node.get("perm", range(len(shape))[::-1])]
    labels = plain_labels(len(shape))
    target = tuple(labels[k] for k in order)
    t.relabel(node.name, node.inputs[0], node.outputs[0], labels, target, [shape[k] for k in order])


def _reshape(t: Translation, node: OnnxNode) -> None:
    value = t.value(node.inputs[0])
    wanted = list(t.integers(node, 1, "shape") or ())
    if not node.get("allowzero", 0):
        wanted = [value.shape[k] if s == 0 else s for k, s in enumerate(wanted)]
    known = math.prod(s for s in wanted if s != -1)
    shape = [value.size // max(known, 1) if s == -1 else s for s in wanted]
    if math.prod(shape) != value.size:
        raise ImportFailure(f"{node.where}: {list(value.shape)} cannot be reshaped to {wanted}")
    t.reshape(node.name, node.inputs[0], node.outputs[0], shape)


def _flatten(t: Translation, node: OnnxNode) -> None:
    shape = t.value(node.inputs[0]).shape
    axis = int(node.get("axis", 1))
    axis = axis + len(shape) if axis < 0 else axis
    t.reshape(node.name, node.inputs[0], node.outputs[0], (math.prod(shape[:axis]), math.prod(shape[axis:])))


def _squeeze(t: Translation, node: OnnxNode) -> None:
    shape = t.value(node.inputs[0]).shape
    axes = t.integers(node, 1, "axes")
    gone = (
        {k for k, s in enumerate(shape) if s == 1}
        if axes is None
        else {normal_axis(node, a, len(shape)) for a in axes}
    )
    if any(shape[k] != 1 for k in gone):
        raise ImportFailure(
            f"{node.where}: only dimensions of size 1 can be squeezed, not {sorted(gone)} of {list(shape)}"
        )
    labels = plain_labels(len(shape))
    target = tuple(d for k, d in enumerate(labels) if k not in gone)
    t.relabel(
        node.name,
        node.inputs[0],
        node.outputs[0],
        labels,
        target,
        [s for k, s in enumerate(shape) if k not in gone],
    )


def _unsqueeze(t: Translation, node: OnnxNode) -> None:
    shape = t.value(node.inputs[0]).shape
    axes = t.integers(node, 1, "axes") or ()
    new = {normal_axis(node, a, len(shape) + len(axes)) for a in axes}
    labels, sizes = iter(plain_labels(len(shape))), iter(shape)
    rank = len(shape) + len(new)
    target = tuple("" if k in new else next(labels) for k in range(rank))
    result = [1 if k in new else next(sizes) for k in range(rank)]
    t.relabel(node.name, node.inputs[0], node.outputs[0], plain_labels(len(shape)), target, result)


def broadcast_to(t: Translation, site: str, name: str, output: str, wanted: Sequence[int]) -> str:
    """Broadcast `name` to `wanted` by numpy's rule; dimensions of either side may be 1."""
    shape = t.value(name).shape
    result = np.broadcast_shapes(shape, tuple(wanted))
    if result == shape:
        t.alias(output, name)
        return t.resolve(name)
    lead = len(result) - len(shape)
    stays = [k >= lead and shape[k - lead] == result[k] for k in range(len(result))]
    source = tuple(f"d{lead + k}" for k in range(len(shape)))
    target = tuple(f"d{k}" if stays[k] else "" for k in range(len(result)))
    source = tuple(d if stays[lead + k] else "" for k, d in enumerate(source))
    return t.relabel(site, name, output, source, target, result)


def _expand(t: Translation, node: OnnxNode) -> None:
    wanted = t.integers(node, 1, "shape") or ()
    broadcast_to(t, node.name, node.inputs[0], node.outputs[0], wanted)


def _slice(t: Translation, node: OnnxNode) -> None:
    shape = t.value(node.inputs[0]).shape
    starts, ends = t.integers(node, 1, "starts") or (), t.integers(node, 2, "ends") or ()
    axes = t.integers(node, 3, "axes") or tuple(range(len(starts)))
    steps = t.integers(node, 4, "steps") or (1,) * len(starts)
    ranges = [range(s) for s in shape]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        k = normal_axis(node, axis, len(shape))
        ranges[k] = range(
            *slice(start, end if step > 0 or end >= -shape[k] else None, step).indices(shape[k])
        )
    t.slice(node.name, node.inputs[0], node.outputs[0], ranges)


def _split(t: Translation, node: OnnxNode) -> None:
    shape = t.value(node.inputs[0]).shape
    axis = normal_axis(node, int(node.get("axis", 0)), len(shape))
    sizes = t.integers(node, 1, "split")
    if sizes is None:
        count = int(node.get("num_outputs", len(node.outputs)))
        if count != len(node.outputs):
            raise ImportFailure(f"{node.where} splits into {count} parts but names {len(node.outputs)}")
        chunk = -(-shape[axis] // count)
        sizes = tuple(max(0, min(chunk, shape[axis] - k * chunk)) for k in range(count))
    start = 0
    for k, (output, size) in enumerate(zip(node.outputs, sizes, strict=True)):
        if output:
            ranges = [range(start, start + size) if d == axis else range(s) for d, s in enumerate(shape)]
            t.slice(f"{node.name}.{k}", node.inputs[0], output, ranges)
        start += size


def _concat(t: Translation, node: OnnxNode) -> None:
    rank = len(t.value(node.inputs[0]).shape)
    axis = normal_axis(node, int(node.get("axis", 1)), rank)
    t.concat(node.name, node.inputs, node.outputs[0], axis)


def _pad(t: Translation, node: OnnxNode) -> None:
    """Translate negative padding to a slice, and the rest to a pad block whose padded dimensions stay whole."""
    value = t.value(node.inputs[0])
    rank = len(value.shape)
    pads = t.integers(node, 1, "pads") or ()
    axes = t.integers(node, 3, "axes") or tuple(range(rank))
    fill = t.constant(node, 2, "pad value")
    low, high = [0] * rank, [0] * rank
    for k, axis in enumerate(axes):
        low[normal_axis(node, axis, rank)] = pads[k]
        high[normal_axis(node, axis, rank)] = pads[k + len(axes)]
    ranges = [range(max(-a, 0), s - max(-b, 0)) for s, a, b in zip(value.shape, low, high, strict=True)]
    if all(n <= 0 for n in (*low, *high)):
        t.slice(node.name, value.name, node.outputs[0], ranges)
        return
    cropped = t.slice(f"{node.name}.crop", value.name, f"{node.outputs[0]}.crop", ranges)
    number = float(node.get("value", 0.0)) if fill is None or fill.size == 0 else fill.reshape(-1)[0].item()
    widths = [max(a, 0) for a in low], [max(b, 0) for b in high]
    pad(t, node.name, cropped, node.outputs[0], *widths, mode=node.get("mode", "constant"), fill=number)


def pad(
    t: Translation,
    site: str,
    name: str,
    output: str,
    low: Sequence[int],
    high: Sequence[int],
    mode: str = "constant",
    fill: float = 0.0,
) -> str:
    """Pad a value before and after; `mode` as in `numpy.pad` (constant, edge, reflect, wrap)."""
    value = t.value(name)
    if mode != "constant":
        return _extend(t, site, value.name, output, low, high, mode)
    labels = plain_labels(len(value.shape))
    changed = {d for d, a, b in zip(labels, low, high, strict=True) if a or b}
    written = tuple(f"{d}p" if d in changed else d for d in labels)
    attrs = {
        "low": dict(zip(labels, low, strict=True)),
        "high": dict(zip(labels, high, strict=True)),
        "value": fill,
    }
    t.declare(output, [s + a + b for s, a, b in zip(value.shape, low, high, strict=True)], value.dtype)
    whole = frozenset(changed | {f"{d}p" for d in changed})
    return t.emit(Compute(site, "pad", (value.name,), output, (labels,), written, attrs, whole))


def _extend(
    t: Translation, site: str, name: str, output: str, low: Sequence[int], high: Sequence[int], mode: str
) -> str:
    """Pad the tensor with views of itself, one dimension after the other."""
    padded = [k for k, (a, b) in enumerate(zip(low, high, strict=True)) if a or b]
    if not padded:
        t.alias(output, name)
    for axis in padded:
        shape = t.value(name).shape
        parts = []
        for k, part in enumerate(padding_parts(shape[axis], low[axis], high[axis], mode)):
            stem = f"{site}.{axis}.{k}"
            ranges = [part.kept if d == axis else range(s) for d, s in enumerate(shape)]
            found = t.slice(stem, name, f"{output}.{axis}.{k}", ranges)
            if part.repeated:
                wide = [part.length if d == axis else s for d, s in enumerate(shape)]
                found = broadcast_to(t, f"{stem}.expand", found, f"{output}.{axis}.{k}.expand", wide)
            parts.append(found)
        joined = output if axis == padded[-1] else f"{output}.{axis}"
        name = t.concat(f"{site}.{axis}" if joined != output else site, parts, joined, axis)
    return name


def _trilu(t: Translation, node: OnnxNode) -> None:
    value = t.value(node.inputs[0])
    offset = t.constant(node, 1, "diagonal")
    k = 0 if offset is None else int(offset.reshape(-1)[0])
    labels = plain_labels(len(value.shape))
    row, column = ("index", labels[-2]), ("index", labels[-1])
    kept = ("ge" if node.get("upper", 1) else "le", column, ("add", row, ("const", k)))
    t.cell(node.name, [value.name], node.outputs[0], ("where", kept, ("input", 0), ("const", 0)), value.dtype)


MOVEMENT: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Transpose",), _transpose),
    OnnxTranslator(("Reshape",), _reshape),
    OnnxTranslator(("Flatten",), _flatten),
    OnnxTranslator(("Squeeze",), _squeeze),
    OnnxTranslator(("Unsqueeze",), _unsqueeze),
    OnnxTranslator(("Expand",), _expand),
    OnnxTranslator(("Slice",), _slice),
    OnnxTranslator(("Split",), _split),
    OnnxTranslator(("Concat",), _concat),
    OnnxTranslator(("Pad",), _pad),
    OnnxTranslator(("Trilu",), _trilu),
)
