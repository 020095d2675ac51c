"""Index vectors over several dimensions at once (GatherND, ScatterND), one column for each.

A column that is an arithmetic progression along a dimension of its own is a slice there; the two dimensions run
together. Only the columns that remain address by position, over their dimensions flattened into one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tapestry.teg.importers.failure import WrongProgramError
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Concat, Literal
from tapestry.teg.importers.translate.laws import AffineIndex, known_law, law_of
from tapestry.teg.importers.translate.translation import Translation


@dataclass(frozen=True)
class Vectors:
    """The addressing of a table, dimensions `first` and following, by index vectors of shape `(*outer, depth)`.

    `spans` and `along` per column: the slice and the outer dimension along which it runs (-1: constant); None
    for a column that addresses by position. The first dimensions of both run together.
    """

    outer: tuple[int, ...]
    first: int
    spans: tuple[range | None, ...]
    along: tuple[int, ...]

    @property
    def dynamic(self) -> tuple[int, ...]:
        """The columns that address by position."""
        return tuple(k for k, span in enumerate(self.spans) if span is None)

    @property
    def repeated(self) -> tuple[int, ...]:
        """The outer dimensions along which no column is known to change."""
        return tuple(d for d, n in enumerate(self.outer) if n > 1 and d >= self.first and d not in self.along)

    def ranges(self, table: Sequence[int]) -> list[range]:
        """Return the ranges of a table that the slices leave."""
        spans = {self.first + k: span for k, span in enumerate(self.spans) if span is not None}
        return [spans.get(k, range(size)) for k, size in enumerate(table)]

    def labels(self, rank: int) -> list[str]:
        """Return the labels of the sliced table: `o0`, ... run along the outer dimensions, `x0`, ... by position."""
        names = [f"o{d}" for d in range(self.first)]
        names += [
            f"x{k}" if span is None else f"o{d}" if d >= 0 else f"c{k}"
            for k, (span, d) in enumerate(zip(self.spans, self.along, strict=True))
        ]
        return [*names, *(f"r{k}" for k in range(len(names), rank))]


def vectors_of(t: Translation, node: OnnxNode, table: Sequence[int], first: int = 0) -> Vectors:
    """Find how the node's second input addresses a table of this shape, after `first` dimensions that run together.

    Raises:
        WrongProgramError: a known position lies outside.
    """
    index = t.value(node.inputs[1])
    outer, depth = index.shape[:-1], index.shape[-1]
    spans: list[range | None] = []
    along: list[int] = []
    for k, law in enumerate(_column_laws(t, index.name, depth)):
        span, d = None, -1
        if law is not None and len(law.along) <= 1:
            size = table[first + k]
            inside = law.within(outer, size)
            low, high = law.bounds(outer)
            if low < -size or high >= size:
                raise WrongProgramError(
                    f"{node.where}: indices {low} to {high} lie outside axis {first + k} of size {size}"
                )
            d = law.along[0] if law.along else -1
            if inside is not None and (d < 0 or (d >= first and d not in along)):
                step, count = (inside.strides[d], outer[d]) if d >= 0 else (1, 1)
                span = range(inside.start, inside.start + step * count, step)
        spans.append(span)
        along.append(d if span is not None else -1)
    return Vectors(outer, first, tuple(spans), tuple(along))


def _column_laws(t: Translation, name: str, depth: int) -> list[AffineIndex | None]:
    """Find the law of each column, of a known value or of the parts of a concatenation; None where there is none."""
    known, step = t.literal(name), t.producer(name)
    outer = t.value(name).shape[:-1]
    if known is not None:
        array = np.broadcast_to(known.array, (*known.array.shape[:-1], depth))
        return [known_law(t, Literal(array[..., k], outer)) for k in range(depth)]
    parts = step.inputs if isinstance(step, Concat) and step.axis == len(outer) else (name,)
    laws: list[AffineIndex | None] = []
    for part in parts:
        width = t.value(part).shape[-1]
        if width == 1:
            law = law_of(t, part)
            laws.append(None if law is None else law._replace(strides=law.strides[:-1]))
        else:
            laws += _column_laws(t, part, width) if t.literal(part) is not None else [None] * width
    return laws


def flat_positions(t: Translation, node: OnnxNode, vectors: Vectors, table: Sequence[int]) -> str:
    """Compute row numbers over the dimensions addressed by position: each wrapped if negative, times its stride."""
    index, output = t.value(node.inputs[1]), f"{node.outputs[0]}.index"
    sizes = [table[vectors.first + k] for k in vectors.dynamic]
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    columns = [_column(t, node, k) for k in vectors.dynamic]
    known = [t.literal(c) for c in columns]
    if all(c is not None for c in known):
        arrays = [c.array for c in known if c is not None]
        places = t.once(("rows", *sizes), arrays, lambda: _rows(arrays, sizes, strides))
        t.know(output, Literal(places, vectors.outer))
        return output
    if len(columns) == 1:
        return columns[0]
    terms = [
        ("mul", ("where", ("lt", e, ("const", 0)), ("add", e, ("const", size)), e), ("const", stride))
        for e, size, stride in zip([("input", k) for k in range(len(columns))], sizes, strides, strict=True)
    ]
    total = terms[0]
    for term in terms[1:]:
        total = ("add", total, term)  # type: ignore[assignment]
    return t.cell(f"{node.name}.index", columns, output, total, index.dtype)


def _rows(columns: Sequence[np.ndarray], sizes: Sequence[int], strides: Sequence[int]) -> np.ndarray:
    """Compute row numbers from columns of known positions."""
    places = np.zeros((1,) * columns[0].ndim, np.int64)
    for column, size, stride in zip(columns, sizes, strides, strict=True):
        rows = column.astype(np.int64)
        places = places + np.where(rows < 0, rows + size, rows) * stride
    return places


def _column(t: Translation, node: OnnxNode, k: int) -> str:
    """Emit column `k` of the index vectors, over the outer dimensions."""
    index, output = t.value(node.inputs[1]), f"{node.outputs[0]}.index.{k}"
    known, outer = t.literal(index.name), index.shape[:-1]
    if known is not None:
        column = np.broadcast_to(known.array, (*known.array.shape[:-1], index.shape[-1]))[..., k]
        t.know(output, Literal(column, outer))
        return output
    ranges = [*map(range, outer), range(k, k + 1)]
    part = t.slice(f"{node.name}.column", index.name, f"{output}.column", ranges)
    return t.reshape(f"{node.name}.column", part, output, outer)


def sliced_rows(t: Translation, node: OnnxNode, name: str, vectors: Vectors, output: str) -> str:
    """Emit the table's slices as `(dimensions that run along outer ones, all addressed by position, rest)`."""
    shape = t.value(name).shape
    part = t.slice(f"{node.name}.part", name, f"{output}.part", vectors.ranges(shape))
    sizes, labels = t.value(part).shape, vectors.labels(len(shape))
    order = row_order(labels)
    by_label = dict(zip(labels, sizes, strict=True))
    turned = t.relabel(
        f"{node.name}.rows",
        part,
        f"{output}.turned",
        tuple(d if d in order else "" for d in labels),
        tuple(order),
        [by_label[d] for d in order],
    )
    return t.reshape(f"{node.name}.flat", turned, f"{output}.flat", row_shape(by_label, order))


def row_order(labels: Sequence[str]) -> list[str]:
    """Sort the labels: those along outer dimensions, those addressed by position, the rest; drop constants."""
    return [d for kind in "oxr" for d in labels if d[0] == kind]


def row_shape(sizes: dict[str, int], order: Sequence[str]) -> tuple[int, ...]:
    """Return the sizes in `order`, those addressed by position merged into one."""
    outer = [sizes[d] for d in order if d[0] == "o"]
    rows = math.prod(sizes[d] for d in order if d[0] == "x")
    return (*outer, rows, *(sizes[d] for d in order if d[0] == "r"))


def aligned_pairs(labels: Sequence[str]) -> list[tuple[int, int]]:
    """Pair the dimensions of `sliced_rows` that run along dimensions of the positions with these dimensions."""
    return [(k, int(d[1:])) for k, d in enumerate(d for d in labels if d[0] == "o")]


def outer_labels(vectors: Vectors) -> tuple[str, ...]:
    """Return the labels of the outer dimensions."""
    return tuple(f"o{d}" for d in range(len(vectors.outer)))
