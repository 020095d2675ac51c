"""Distances between vectors, and the losses that compare them."""

from __future__ import annotations

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.reductions import norm, reduced
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call, where

MEAN = 1


def _cdist(t: Tracer, x1: Value, x2: Value, p: float = 2.0, compute_mode: int | None = None) -> Value:
    """Compute the distances of all pairs of rows."""
    rank = len(x1.shape)
    pair = (t.unsqueeze(x1, rank - 1), t.unsqueeze(x2, rank - 2))
    difference = t.cells(lambda a, b: a - b, *pair, dtype=t.dtype)
    return norm(t, difference, p, [rank], keep=False)


def _pdist(t: Tracer, x: Value, p: float = 2.0) -> Value:
    """Compute the distances of the pairs i < j, one slice of rows after the other."""
    rows = x.shape[0]
    parts = []
    for i in range(rows - 1):
        others = t.part(x, 0, range(i + 1, rows))
        away = t.cells(lambda a, b: a - b, t.part(x, 0, range(i, i + 1)), others, dtype=x.dtype)
        parts.append(norm(t, away, p, [1], keep=False))
    return t.concat(parts, 0)


def cosine(t: Tracer, a: Value, b: Value, dim: int, eps: float) -> Value:
    """Compute the cosine of the angle between vectors along `dim`; the product of their lengths is at least `eps`."""
    rank = max(len(a.shape), len(b.shape))
    axis = [t.axis(dim, rank)]
    product = t.reduce(t.cells(lambda x, y: x * y, a, b, dtype=a.dtype), axis)
    lengths = [
        t.reduce(t.cells(lambda x: x * x, v, dtype=v.dtype), [axis[0] - rank + len(v.shape)]) for v in (a, b)
    ]
    return t.cells(
        lambda p, x, y: p / call("max", call("sqrt", x) * call("sqrt", y), eps),
        product,
        *lengths,
        dtype=a.dtype,
    )


def _cosine_similarity(t: Tracer, x1: Value, x2: Value, dim: int = 1, eps: float = 1e-8) -> Value:
    return cosine(t, x1, x2, dim, eps)


def _pairwise(
    t: Tracer, x1: Value, x2: Value, p: float = 2, eps: float = 1e-6, keepdim: bool = False
) -> Value:
    away = t.cells(lambda a, b: a - b + eps, x1, x2, dtype=x1.dtype)
    return norm(t, away, p, [len(away.shape) - 1], keepdim)


def _triplet_margin(
    t: Tracer,
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: int = MEAN,
) -> Value:
    near, far = _pairwise(t, anchor, positive, p, eps), _pairwise(t, anchor, negative, p, eps)
    if swap:
        other = _pairwise(t, positive, negative, p, eps)
        far = t.cells(lambda a, b: call("min", a, b), far, other, dtype=far.dtype)
    each = t.cells(lambda a, b: call("relu", a - b + margin), near, far, dtype=near.dtype)
    return reduced(t, each, reduction)


def _margin_ranking(
    t: Tracer, input1: Value, input2: Value, target: Value, margin: float = 0.0, reduction: int = MEAN
) -> Value:
    each = t.cells(lambda a, b, y: call("relu", -y * (a - b) + margin), input1, input2, target, dtype=t.dtype)
    return reduced(t, each, reduction)


def _hinge_embedding(t: Tracer, x: Value, target: Value, margin: float = 1.0, reduction: int = MEAN) -> Value:
    each = t.cells(
        lambda a, y: where(call("eq", y, 1), a, where(call("eq", y, -1), call("relu", margin - a), 0.0)),
        x,
        target,
        dtype=t.dtype,
    )
    return reduced(t, each, reduction)


def _cosine_embedding(
    t: Tracer, input1: Value, input2: Value, target: Value, margin: float = 0.0, reduction: int = MEAN
) -> Value:
    angles = cosine(t, input1, input2, len(input1.shape) - 1, 1e-12)
    each = t.cells(
        lambda c, y: where(call("eq", y, 1), 1 - c, where(call("eq", y, -1), call("relu", c - margin), 0.0)),
        angles,
        target,
        dtype=t.dtype,
    )
    return reduced(t, each, reduction)


DISTANCES: tuple[TorchOperator, ...] = (
    TorchOperator(aten("_cdist_forward", "cdist"), _cdist),
    TorchOperator(aten("_pdist_forward", "pdist"), _pdist),
    TorchOperator(aten("cosine_similarity"), _cosine_similarity),
    TorchOperator(aten("pairwise_distance"), _pairwise),
    TorchOperator(aten("triplet_margin_loss"), _triplet_margin),
    TorchOperator(aten("margin_ranking_loss"), _margin_ranking),
    TorchOperator(aten("hinge_embedding_loss"), _hinge_embedding),
    TorchOperator(aten("cosine_embedding_loss"), _cosine_embedding),
)
