"""Embedding bags: sums, means and maxima of rows, bag by bag."""

from __future__ import annotations

import math

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call, where

SUM, MEAN, MAX = 0, 1, 2


def _embedding_bag(
    t: Tracer,
    weight: Value,
    indices: Value,
    offsets: Value,
    scale_grad_by_freq: bool = False,
    mode: int = SUM,
    sparse: bool = False,
    per_sample_weights: Value | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> tuple[Value | None, ...]:
    """Reduce rows bag by bag; an index belongs to the last bag that begins at or before it; empty bags are zero."""
    count = offsets.shape[0] - int(include_last_offset)
    begins = t.unsqueeze(t.part(offsets, 0, range(count)), 1)
    at = ("index", "d1")
    started = t.elements(
        ("cast", "int64", ("le", ("input", 0), at)), [t.expand(begins, (count, indices.shape[0]))], "int64"
    )
    bags = t.cells(lambda n: n - 1, t.reduce(started, [0]), dtype="int64")
    rows = t.gather(weight, indices, 0)
    if per_sample_weights is not None:
        rows = t.cells(lambda a, w: a * w, rows, t.unsqueeze(per_sample_weights, 1), dtype=rows.dtype)
    ones = t.cells(
        lambda i: call("ne", i, -1 if padding_idx is None else padding_idx), indices, dtype="int64"
    )
    kept = t.unsqueeze(ones, 1)
    counts = t.scatter(bags, ones, 0, count)
    filled = t.unsqueeze(counts, 1)
    if mode == MAX:
        rows = t.cells(lambda a, k: where(call("eq", k, 0), -math.inf, a), rows, kept, dtype=rows.dtype)
        found = t.scatter(bags, rows, 0, count, monoid="max")
        result = t.cells(lambda a, k: where(call("eq", k, 0), 0.0, a), found, filled, dtype=rows.dtype)
    else:
        rows = t.cells(lambda a, k: where(call("eq", k, 0), 0.0, a), rows, kept, dtype=rows.dtype)
        result = t.scatter(bags, rows, 0, count)
        if mode == MEAN:
            result = t.cells(lambda a, k: a / call("max", k, 1.0), result, filled, dtype=rows.dtype)
    return (result, *(_if_recorded(t, k, v) for k, v in ((1, bags), (2, counts))))


def _if_recorded(t: Tracer, position: int, value: Value) -> Value | None:
    """Return the value where it has the shape that torch keeps for the gradient, else None."""
    recorded = t.call.outputs[position] if position < len(t.call.outputs) else None
    return value if recorded is not None and recorded.shape == value.shape else None


BAGS: tuple[TorchOperator, ...] = (
    TorchOperator(aten("_embedding_bag", "embedding_bag", "embedding_bag.padding_idx"), _embedding_bag),
    TorchOperator(aten("_embedding_bag_forward_only"), _embedding_bag),
)
