"""Gathers: known arithmetic indices are views, all others read rows of a table."""

from __future__ import annotations

import numpy as np

from tapestry.teg.importers.constants import affine, literal
from tapestry.teg.importers.failure import ImportFailure, WrongProgramError
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Literal
from tapestry.teg.importers.translate.laws import law_of
from tapestry.teg.importers.translate.positions import gather, take_along
from tapestry.teg.importers.translate.strided import strided
from tapestry.teg.importers.translate.translation import OnnxTranslator, Translation, normal_axis
from tapestry.teg.importers.translate.vectors import (
    aligned_pairs,
    flat_positions,
    outer_labels,
    sliced_rows,
    vectors_of,
)


def _gather(t: Translation, node: OnnxNode) -> None:
    rank = len(t.value(node.inputs[0]).shape)
    axis = normal_axis(node, int(node.get("axis", 0)), rank)
    known = t.literal(node.inputs[1])
    if known is not None and known.is_writable and _sliced(t, node, axis, known.full):
        return
    read_rows(t, node.name, node.inputs[0], node.inputs[1], node.outputs[0], axis)


def read_rows(t: Translation, site: str, table: str, indices: str, output: str, axis: int) -> str:
    """Take the slices of a table that indices name: a view, if these are regular, else a gather."""
    law = law_of(t, indices)
    if law is None or not strided(t, site, table, output, axis, law, t.value(indices).shape):
        gather(t, site, table, indices, output, axis)
    return t.resolve(output)


def _sliced(t: Translation, node: OnnxNode, axis: int, indices: np.ndarray) -> bool:
    """Emit a slice, if the indices are an arithmetic progression; return whether they are."""
    table = t.value(node.inputs[0])
    size = table.shape[axis]
    span = t.once(("progression", size), [indices], lambda: _progression(_wrapped(indices, size)))
    if span is None:
        return False
    _check_span(node, span, axis, size)
    shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
    ranges = [span if k == axis else range(s) for k, s in enumerate(table.shape)]
    inner = node.outputs[0] if indices.ndim == 1 else f"{node.outputs[0]}.rows"
    sliced = t.slice(node.name, table.name, inner, ranges)
    if indices.ndim != 1:
        t.reshape(f"{node.name}.shape", sliced, node.outputs[0], shape)
    return True


def _wrapped(indices: np.ndarray, size: int) -> np.ndarray:
    """Count negative indices from the front; return all in one line."""
    return np.where(indices < 0, indices + size, indices).reshape(-1)


def _progression(flat: np.ndarray) -> range | None:
    """Return the indices as a range, if they are one (and more than the same index again), else None."""
    if flat.size == 1:
        return range(int(flat[0]), int(flat[0]) + 1)
    law = affine(flat)
    if law is None or law[1] == 0:
        return None
    start, step = int(law[0]), int(law[1])
    return range(start, start + step * flat.size, step)


def _check_span(node: OnnxNode, span: range, axis: int, size: int) -> None:
    low, high = min(span[0], span[-1]), max(span[0], span[-1])
    if low < 0 or high >= size:
        raise WrongProgramError(
            f"{node.where}: indices {low} to {high} lie outside axis {axis} of size {size}"
        )


def _gather_elements(t: Translation, node: OnnxNode) -> None:
    """Gather one element per position; the table may be larger than the indices along the other dimensions."""
    table, index, output = t.value(node.inputs[0]), t.value(node.inputs[1]), node.outputs[0]
    axis = normal_axis(node, int(node.get("axis", 0)), len(table.shape))
    region = [range(size if k == axis else index.shape[k]) for k, size in enumerate(table.shape)]
    known = t.literal(index.name)
    span = None if known is None else progression_along(t, node, known, axis, table.shape[axis])
    if span is not None:
        region[axis] = span
        t.slice(node.name, table.name, output, region)
        return
    part = t.slice(f"{node.name}.part", table.name, f"{output}.part", region)
    take_along(t, node.name, part, index.name, output, axis)


def progression_along(t: Translation, node: OnnxNode, known: Literal, axis: int, size: int) -> range | None:
    """Return known positions along `axis` as a range, if they are the same progression on every line, else None."""
    line = known.array
    if line.shape[axis] != known.shape[axis] or line.size != line.shape[axis]:
        return None
    span = t.once(("progression", size), [line], lambda: _progression(_wrapped(line, size)))
    if span is not None:
        _check_span(node, span, axis, size)
    return span


def _gather_nd(t: Translation, node: OnnxNode) -> None:
    """Gather by index vectors over the leading dimensions (after the batch's); a grid of progressions is a view."""
    batch = int(node.get("batch_dims", 0))
    table, output = t.value(node.inputs[0]), node.outputs[0]
    vectors = vectors_of(t, node, table.shape, batch)
    labels = vectors.labels(len(table.shape))
    rest, outer = table.shape[batch + len(vectors.spans) :], outer_labels(vectors)
    target = (*(d if d in labels else "" for d in outer), *(d for d in labels if d[0] == "r"))
    if not vectors.dynamic:
        part = t.slice(f"{node.name}.part", table.name, f"{output}.part", vectors.ranges(table.shape))
        source = tuple("" if d[0] == "c" else d for d in labels)
        t.relabel(node.name, part, output, source, target, (*vectors.outer, *rest))
        return
    rows = sliced_rows(t, node, table.name, vectors, output)
    places = flat_positions(t, node, vectors, table.shape)
    pairs = aligned_pairs(labels)
    together = [outer[d] for _, d in pairs]
    free = [d for d in outer if d not in together]
    found = gather(t, node.name, rows, places, f"{output}.rows", len(pairs), pairs)
    source = (*together, *free, *(d for d in labels if d[0] == "r"))
    t.relabel(
        f"{node.name}.turn", found, output, source, (*outer, *target[len(outer) :]), (*vectors.outer, *rest)
    )


def _compress(t: Translation, node: OnnxNode) -> None:
    """Select positions by a known condition; without axis those of the flattened value."""
    value, output = t.value(node.inputs[0]), node.outputs[0]
    condition = t.constant(node, 1, "condition")
    if condition is None:
        raise ImportFailure(f"{node.where} has no condition")
    name, axis = value.name, node.get("axis")
    if axis is None:
        name = t.reshape(f"{node.name}.flat", name, f"{output}.flat", (value.size,))
    k = normal_axis(node, int(axis or 0), len(t.value(name).shape))
    places = f"{output}.places"
    t.know(places, t.once("places", [condition], lambda: literal(np.flatnonzero(condition))))
    read_rows(t, node.name, name, places, output, k)


GATHERING: tuple[OnnxTranslator, ...] = (
    OnnxTranslator(("Gather",), _gather),
    OnnxTranslator(("GatherElements",), _gather_elements),
    OnnxTranslator(("GatherND",), _gather_nd),
    OnnxTranslator(("Compress",), _compress),
)
