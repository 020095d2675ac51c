"""Gathers: known arithmetic indices are views, all others read rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from teg.importers.constants import affine, literal
from teg.importers.failure import ImportFailure
from teg.importers.onnx_reader import Node
from teg.importers.program import Literal
from teg.importers.translate.positions import gather, take_along
from teg.importers.translate.translation import Translation, Translator, normal_axis, plain_labels


def _gather(t: Translation, node: Node) -> None:
    rank = len(t.value(node.inputs[0]).shape)
    axis = normal_axis(node, int(node.get("axis", 0)), rank)
    known = t.literal(node.inputs[1])
    if known is None or not _sliced(t, node, axis, known.full):
        gather(t, node.name, node.inputs[0], node.inputs[1], node.outputs[0], axis)


def _sliced(t: Translation, node: Node, axis: int, indices: np.ndarray) -> bool:
    """Emit a slice, if the indices are an arithmetic progression."""
    table = t.value(node.inputs[0])
    size = table.shape[axis]
    flat = np.where(indices < 0, indices + size, indices).reshape(-1)
    span = _progression(flat)
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


def _progression(flat: np.ndarray) -> range | None:
    """The indices as a range, if they are one (and more than the same index again)."""
    if flat.size == 1:
        return range(int(flat[0]), int(flat[0]) + 1)
    law = affine(flat)
    if law is None or law[1] == 0:
        return None
    start, step = int(law[0]), int(law[1])
    return range(start, start + step * flat.size, step)


def _check_span(node: Node, span: range, axis: int, size: int) -> None:
    low, high = min(span[0], span[-1]), max(span[0], span[-1])
    if low < 0 or high >= size:
        raise ImportFailure(f"{node.where}: indices {low} to {high} lie outside axis {axis} of size {size}")


def _gather_elements(t: Translation, node: Node) -> None:
    """One element per position; the table may be larger than the indices along the other dimensions."""
    table, index, output = t.value(node.inputs[0]), t.value(node.inputs[1]), node.outputs[0]
    axis = normal_axis(node, int(node.get("axis", 0)), len(table.shape))
    region = [range(size if k == axis else index.shape[k]) for k, size in enumerate(table.shape)]
    known = t.literal(index.name)
    span = None if known is None else progression_along(node, known, axis, table.shape[axis])
    if span is not None:
        region[axis] = span
        t.slice(node.name, table.name, output, region)
        return
    part = t.slice(f"{node.name}.part", table.name, f"{output}.part", region)
    take_along(t, node.name, part, index.name, output, axis)


def progression_along(node: Node, known: Literal, axis: int, size: int) -> range | None:
    """Known positions along `axis` as a range, if they are the same progression on every line."""
    if any(n > 1 for k, n in enumerate(known.array.shape) if k != axis):
        return None
    line = np.broadcast_to(known.array, [s if k == axis else 1 for k, s in enumerate(known.shape)])
    span = _progression(np.where(line < 0, line + size, line).reshape(-1))
    if span is not None:
        _check_span(node, span, axis, size)
    return span


def _gather_nd(t: Translation, node: Node) -> None:
    """Index vectors over the leading dimensions (after the batch's); a grid of progressions is a view."""
    batch = int(node.get("batch_dims", 0))
    index, table, output = t.value(node.inputs[1]), t.value(node.inputs[0]), node.outputs[0]
    known = t.literal(index.name)
    if known is not None and not batch and _grid(t, node, known):
        return
    depth = index.shape[-1]
    leading, rest = table.shape[batch : batch + depth], table.shape[batch + depth :]
    shape = (*table.shape[:batch], math.prod(leading), *rest)
    flat = t.reshape(f"{node.name}.table", table.name, f"{output}.table", shape)
    gather(t, node.name, flat, flat_index(t, node, leading), output, batch, [(k, k) for k in range(batch)])


def flat_index(t: Translation, node: Node, leading: Sequence[int]) -> str:
    """Row numbers of the flattened leading dimensions: each coordinate wrapped if negative, times its stride."""
    index, output = t.value(node.inputs[1]), f"{node.outputs[0]}.index"
    strides = [math.prod(leading[k + 1 :]) for k in range(len(leading))]
    known = t.literal(index.name)
    if known is not None:
        wrapped = np.where(known.full < 0, known.full + np.array(leading, np.int64), known.full)
        return t.add_literal(output, wrapped @ np.array(strides, np.int64))
    columns = []
    for k in range(len(leading)):
        ranges = [*(range(s) for s in index.shape[:-1]), range(k, k + 1)]
        part = t.slice(f"{node.name}.column", index.name, f"{output}.{k}.column", ranges)
        columns.append(t.reshape(f"{node.name}.column", part, f"{output}.{k}", index.shape[:-1]))
    if len(columns) == 1:
        return columns[0]
    terms = [
        ("mul", ("where", ("lt", e, ("const", 0)), ("add", e, ("const", size)), e), ("const", stride))
        for e, size, stride in zip([("input", k) for k in range(len(columns))], leading, strides, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = ("add", total, term)  # type: ignore[assignment]
    return t.cell(f"{node.name}.index", columns, output, total, index.dtype)


def grid_of(node: Node, known: Literal, sizes: Sequence[int]) -> tuple[list[range], list[int]] | None:
    """Per column of known index vectors its progression and the dimension along which it runs (-1: none).

    None if a column is irregular, or shares its dimension with another.
    """
    depth = known.shape[-1]
    spans: list[range] = []
    along: list[int] = []
    for k in range(depth):
        column = literal(np.broadcast_to(known.array, (*known.array.shape[:-1], depth))[..., k]).array
        varying = [d for d, n in enumerate(column.shape) if n > 1]
        span = _progression(np.where(column < 0, column + sizes[k], column).reshape(-1))
        if len(varying) > 1 or span is None or (varying and varying[0] in along):
            return None
        _check_span(node, span, k, sizes[k])
        spans.append(span)
        along.append(varying[0] if varying else -1)
    return spans, along


def _grid(t: Translation, node: Node, known: Literal) -> bool:
    """Emit a view, if each coordinate is constant or runs along one output dimension of its own."""
    table = t.value(node.inputs[0])
    depth, outer = known.shape[-1], known.shape[:-1]
    grid = grid_of(node, known, table.shape)
    if grid is None:
        return False
    spans, along = grid
    ranges = [*spans, *(range(s) for s in table.shape[depth:])]
    part = t.slice(f"{node.name}.part", table.name, f"{node.outputs[0]}.part", ranges)
    source = plain_labels(len(table.shape))
    by_place = {d: source[k] for k, d in enumerate(along) if d >= 0}
    labels = tuple("" if k < depth and along[k] < 0 else d for k, d in enumerate(source))
    target = (*(by_place.get(d, "") for d in range(len(outer))), *source[depth:])
    t.relabel(node.name, part, node.outputs[0], labels, target, (*outer, *table.shape[depth:]))
    return True


GATHERING: tuple[Translator, ...] = (
    Translator(("Gather",), _gather),
    Translator(("GatherElements",), _gather_elements),
    Translator(("GatherND",), _gather_nd),
)
