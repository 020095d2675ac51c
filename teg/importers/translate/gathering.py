"""Gathers: known arithmetic indices are views, all others read rows of a table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from teg.importers.constants import affine, literal
from teg.importers.failure import ImportFailure
from teg.importers.onnx_reader import Node
from teg.importers.program import Compute, Literal
from teg.importers.translate.translation import Translation, Translator, normal_axis, plain_labels


def _gather(t: Translation, node: Node) -> None:
    rank = len(t.value(node.inputs[0]).shape)
    axis = normal_axis(node, int(node.get("axis", 0)), rank)
    known = t.literal(node.inputs[1])
    if known is None or not _sliced(t, node, axis, known.full):
        _rows(t, node, node.inputs[0], node.inputs[1], axis)


def _rows(t: Translation, node: Node, table_name: str, index_name: str, axis: int) -> None:
    """The slices of a table along `axis` that an index tensor names."""
    table, index = t.value(table_name), t.value(index_name)
    before = tuple(f"a{k}" for k in range(axis))
    after = tuple(f"z{k}" for k in range(axis + 1, len(table.shape)))
    rows = tuple(f"i{k}" for k in range(len(index.shape)))
    shape = (*table.shape[:axis], *index.shape, *table.shape[axis + 1 :])
    t.declare(node.outputs[0], shape, table.dtype)
    labels = ((*before, "v", *after), rows)
    target = (*before, *rows, *after)
    names = (table.name, index.name)
    t.emit(
        Compute(node.name, "gather", names, node.outputs[0], labels, target, {"axis": "v"}, frozenset("v"))
    )


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


def _gather_nd(t: Translation, node: Node) -> None:
    """Index vectors over the leading dimensions; a grid of progressions is a view."""
    if node.get("batch_dims", 0):
        raise ImportFailure(f"{node.where} is unsupported with batch_dims")
    index = t.value(node.inputs[1])
    known = t.literal(node.inputs[1])
    if known is not None and _grid(t, node, known):
        return
    table = t.value(node.inputs[0])
    depth = index.shape[-1]
    leading, rest = table.shape[:depth], table.shape[depth:]
    flat = t.reshape(
        f"{node.name}.table", table.name, f"{node.outputs[0]}.table", (math.prod(leading), *rest)
    )
    strides = [math.prod(leading[k + 1 :]) for k in range(depth)]
    if known is None:
        places = _flat_index(t, node, leading, strides)
    else:
        wrapped = np.where(known.full < 0, known.full + np.array(leading), known.full)
        places = t.add_literal(f"{node.outputs[0]}.index", wrapped @ np.array(strides))
    _rows(t, node, flat, places, 0)


def _flat_index(t: Translation, node: Node, leading: Sequence[int], strides: Sequence[int]) -> str:
    """Row numbers of the flattened table: each coordinate wrapped if negative, times its stride."""
    index = t.value(node.inputs[1])
    depth, output = len(leading), f"{node.outputs[0]}.index"
    columns = []
    for k in range(depth):
        ranges = [*(range(s) for s in index.shape[:-1]), range(k, k + 1)]
        part = t.slice(f"{node.name}.column", index.name, f"{output}.{k}.column", ranges)
        columns.append(t.reshape(f"{node.name}.column", part, f"{output}.{k}", index.shape[:-1]))
    if depth == 1:
        return columns[0]
    terms = [
        (
            "mul",
            (
                "where",
                ("lt", ("input", k), ("const", 0)),
                ("add", ("input", k), ("const", size)),
                ("input", k),
            ),
            ("const", stride),
        )
        for k, (size, stride) in enumerate(zip(leading, strides, strict=True))
    ]
    total = terms[0]
    for term in terms[1:]:
        total = ("add", total, term)  # type: ignore[assignment]
    return t.cell(f"{node.name}.index", columns, output, total, index.dtype)


def _grid(t: Translation, node: Node, known: Literal) -> bool:
    """Emit a view, if each coordinate is constant or runs along one output dimension of its own."""
    table = t.value(node.inputs[0])
    depth, outer = known.shape[-1], known.shape[:-1]
    spans: list[range] = []
    along: list[int] = []
    for k in range(depth):
        column = literal(np.broadcast_to(known.array, (*known.array.shape[:-1], depth))[..., k]).array
        varying = [d for d, n in enumerate(column.shape) if n > 1]
        wrapped = np.where(column < 0, column + table.shape[k], column).reshape(-1)
        span = _progression(wrapped)
        if len(varying) > 1 or span is None or (varying and varying[0] in along):
            return False
        _check_span(node, span, k, table.shape[k])
        spans.append(span)
        along.append(varying[0] if varying else -1)
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
    Translator(("GatherND",), _gather_nd),
)
