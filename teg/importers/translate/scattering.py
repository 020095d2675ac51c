"""ONNX operators that write at positions: known regular positions become pads and concatenations."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tapestry.teg.dtypes import numpy_dtype
from tapestry.teg.importers.failure import ImportFailure
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Compute, Literal
from tapestry.teg.importers.translate.gathering import progression_along
from tapestry.teg.importers.translate.movement import pad
from tapestry.teg.importers.translate.positions import scatter
from tapestry.teg.importers.translate.region_updates import REDUCTIONS, combine, paste
from tapestry.teg.importers.translate.translation import (
    OnnxTranslator,
    Translation,
    normal_axis,
    plain_labels,
)
from tapestry.teg.importers.translate.vectors import (
    Vectors,
    aligned_pairs,
    flat_positions,
    outer_labels,
    row_order,
    row_shape,
    sliced_rows,
    vectors_of,
)


def _reduction(node: OnnxNode) -> str:
    given = node.get("reduction", "none")
    name = given.decode() if isinstance(given, bytes) else str(given)
    if name != "none" and name not in REDUCTIONS:
        raise ImportFailure(f"{node.where}: unknown reduction {name!r}")
    return name


def _scatter_elements(t: Translation, node: OnnxNode) -> None:
    base, index, output = t.value(node.inputs[0]), t.value(node.inputs[1]), node.outputs[0]
    updates, reduction = t.resolve(node.inputs[2]), _reduction(node)
    axis = normal_axis(node, int(node.get("axis", 0)), len(base.shape))
    if index.size == 0:
        t.alias(output, base.name)
        return
    region = [range(s) for s in index.shape]
    known = t.literal(index.name)
    span = None if known is None else progression_along(t, node, known, axis, base.shape[axis])
    if span is not None:
        region[axis] = span
        paste(t, node.name, base.name, updates, output, region, reduction)
        return
    region[axis] = range(base.shape[axis])
    covered = all(len(r) == s for r, s in zip(region, base.shape, strict=True))
    inner = output if covered else f"{output}.region"
    part = t.slice(f"{node.name}.part", base.name, f"{output}.part", region)
    _scatter_along(t, node.name, part, index.name, updates, inner, axis, reduction)
    if not covered:
        paste(t, f"{node.name}.paste", base.name, inner, output, region)


def _scatter_along(
    t: Translation, site: str, base: str, index: str, updates: str, output: str, axis: int, reduction: str
) -> None:
    """Scatter elements along `axis`; a single one per line is a selection by coordinate."""
    value, count = t.value(base), t.value(index).shape[axis]
    rank = len(value.shape)
    aligned = [(k, k) for k in range(rank) if k != axis]
    if count == 1:
        labels = plain_labels(rank)
        place = ("cast", "int64", ("input", 1))
        wrapped = ("where", ("lt", place, ("const", 0)), ("add", place, ("const", value.shape[axis])), place)
        new = ("input", 2)
        if reduction != "none":
            new = (REDUCTIONS[reduction][1], ("input", 0), new)  # type: ignore[assignment]
        expr = ("where", ("eq", wrapped, ("index", labels[axis])), new, ("input", 0))
        line = (*labels[:axis], "", *labels[axis + 1 :])
        t.declare(output, value.shape, value.dtype)
        names = (value.name, t.resolve(index), t.resolve(updates))
        attrs = {"expr": expr, "dtype": value.dtype}
        t.emit(Compute(site, "cell", names, output, (labels, line, line), labels, attrs))
    elif reduction == "none":
        scatter(t, site, index, updates, output, axis, aligned, "last", base=base)
    else:
        monoid, size = REDUCTIONS[reduction][0], value.shape[axis]
        scatter(t, site, index, updates, f"{output}.sent", axis, aligned, monoid, size=size)
        combine(t, f"{site}.combine", base, f"{output}.sent", output, reduction)


def _scatter_nd(t: Translation, node: OnnxNode) -> None:
    """Translate ScatterND: index vectors over the leading dimensions; a grid of progressions is a region."""
    base, index, output = t.value(node.inputs[0]), t.value(node.inputs[1]), node.outputs[0]
    reduction = _reduction(node)
    if index.size == 0:
        t.alias(output, base.name)
        return
    vectors = vectors_of(t, node, base.shape)
    if not vectors.dynamic and vectors.repeated:
        # Several updates meet in each place of the region.
        vectors = replace(vectors, spans=(None, *vectors.spans[1:]), along=(-1, *vectors.along[1:]))
    by_position = bool(vectors.dynamic)
    updates = _region_by_position(t, node, vectors, reduction) if by_position else _region(t, node, vectors)
    paste(t, node.name, base.name, updates, output, vectors.ranges(base.shape), reduction)


def _region(t: Translation, node: OnnxNode, vectors: Vectors) -> str:
    """Emit the updates with one dimension per column of the indices, in the order of the base's dimensions."""
    base, updates = t.value(node.inputs[0]), t.value(node.inputs[2])
    labels = vectors.labels(len(base.shape))
    read = (*outer_labels(vectors), *(d for d in labels if d[0] == "r"))
    source = tuple(d if d in labels else "" for d in read)
    target = tuple("" if d[0] == "c" else d for d in labels)
    shape = [len(r) for r in vectors.ranges(base.shape)]
    made = f"{node.outputs[0]}.updates"
    return t.relabel(f"{node.name}.updates", updates.name, made, source, target, shape)


def _region_by_position(t: Translation, node: OnnxNode, vectors: Vectors, reduction: str) -> str:
    """Emit the slices of the base, with the updates at the positions of the other columns.

    The result holds the new values where they replace the base's, else the updates combined among themselves.
    """
    base, updates, output = t.value(node.inputs[0]), t.value(node.inputs[2]), node.outputs[0]
    labels = vectors.labels(len(base.shape))
    order, outer = row_order(labels), outer_labels(vectors)
    sizes = dict(zip(labels, [len(r) for r in vectors.ranges(base.shape)], strict=True))
    pairs = aligned_pairs(labels)
    free = [d for d in outer if d not in labels]
    rest = [d for d in order if d[0] == "r"]
    read = dict(zip((*outer, *rest), updates.shape, strict=True))
    wanted = (*(d for d in order if d[0] == "o"), *free, *rest)
    turned = t.relabel(
        f"{node.name}.updates",
        updates.name,
        f"{output}.updates",
        (*outer, *rest),
        wanted,
        [read[d] for d in wanted],
    )
    places, sent = flat_positions(t, node, vectors, base.shape), f"{output}.sent"
    shape = row_shape(sizes, order)
    if reduction == "none":
        rows = sliced_rows(t, node, base.name, vectors, output)
        scatter(t, f"{node.name}.send", places, turned, sent, len(pairs), pairs, "last", base=rows)
    else:
        monoid, size = REDUCTIONS[reduction][0], shape[len(pairs)]
        scatter(t, f"{node.name}.send", places, turned, sent, len(pairs), pairs, monoid, size=size)
    split = t.reshape(f"{node.name}.split", sent, f"{output}.split", [sizes[d] for d in order])
    target = tuple("" if d[0] == "c" else d for d in labels)
    back = [sizes[d] for d in labels]
    return t.relabel(f"{node.name}.back", split, f"{output}.back", tuple(order), target, back)


def _tensor_scatter(t: Translation, node: OnnxNode) -> None:
    """Write new entries into a cache, from each batch entry's own position on; circular caches wrap around."""
    base, updates, output = t.value(node.inputs[0]), t.value(node.inputs[1]), node.outputs[0]
    axis = normal_axis(node, int(node.get("axis", -2)), len(base.shape))
    size, count = base.shape[axis], updates.shape[axis]
    starts = node.inputs[2] if len(node.inputs) > 2 and node.inputs[2] else ""
    if not starts:
        starts = t.add_literal(f"{output}.starts", np.zeros(base.shape[0], np.int64))
    place = ("add", ("cast", "int64", ("input", 0)), ("index", "entry"))
    expr = (
        ("mod", place, ("const", size)) if node.get("mode", "linear") in ("circular", b"circular") else place
    )
    positions = t.declare(f"{output}.positions", (base.shape[0], count), "int64")
    attrs = {"expr": expr, "dtype": "int64"}
    t.emit(
        Compute(
            f"{node.name}.positions",
            "cell",
            (t.resolve(starts),),
            positions,
            (("batch",),),
            ("batch", "entry"),
            attrs,
        )
    )
    scatter(t, node.name, positions, updates.name, output, axis, [(0, 0)], "last", base=base.name)


def _max_unpool(t: Translation, node: OnnxNode) -> None:
    """Put values at positions of the flattened result; zeros elsewhere and beyond the windows, up to the shape."""
    value, output = t.value(node.inputs[0]), node.outputs[0]
    kernel = tuple(int(k) for k in node.attributes["kernel_shape"])
    strides = node.get("strides") or (1,) * len(kernel)
    pads = node.get("pads") or (0,) * (2 * len(kernel))
    both = zip(value.shape[2:], kernel, strides, pads[: len(kernel)], pads[len(kernel) :], strict=True)
    windows = (*value.shape[:2], *((n - 1) * s + k - a - b for n, k, s, a, b in both))
    wanted = t.integers(node, 2, "output_shape") or windows
    places, values = (
        t.reshape(f"{node.name}.{what}", name, f"{output}.{what}", (value.size,))
        for what, name in (("places", node.inputs[1]), ("values", value.name))
    )
    zeros = f"{output}.zeros"
    t.know(zeros, Literal(np.zeros(1, numpy_dtype(value.dtype)), (math.prod(windows),)))
    sent = scatter(t, node.name, places, values, f"{output}.flat", 0, monoid="last", base=zeros)
    if tuple(wanted) == windows:
        t.reshape(f"{node.name}.shape", sent, output, windows)
        return
    inner = t.reshape(f"{node.name}.shape", sent, f"{output}.windows", windows)
    high = [w - s for w, s in zip(wanted, windows, strict=True)]
    pad(t, f"{node.name}.rest", inner, output, [0] * len(high), high)


SCATTERING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("ScatterElements", "Scatter"), _scatter_elements),
    OnnxTranslator(("ScatterND",), _scatter_nd),
    OnnxTranslator(("TensorScatter",), _tensor_scatter),
    OnnxTranslator(("MaxUnpool",), _max_unpool),
)
