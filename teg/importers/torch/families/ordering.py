"""Running sums, positions of extremes, sorting: operators along one dimension."""

from __future__ import annotations

from functools import partial
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call


def scan(t: Tracer, x: Value, axis: int, monoid: str) -> Value:
    """Compute the running combination along `axis`, each element included."""
    return t.along("scan", x, axis, x.dtype, {"monoid": monoid, "exclusive": False, "reverse": False})


def _cumulative(monoid: str, t: Tracer, x: Value, dim: int) -> Value:
    value = t.cast(x, t.dtype)
    return scan(t, value, t.axis(dim, len(x.shape)), monoid) if x.shape else value


def _cumulative_extreme(kind: str, t: Tracer, x: Value, dim: int) -> tuple[Value, Value]:
    """Compute the extreme so far and its last position: the last place at which it is equal to the element itself."""
    axis = t.axis(dim, len(x.shape))
    values = scan(t, x, axis, kind)
    met = ("where", ("eq", ("input", 0), ("input", 1)), ("index", f"d{axis}"), ("const", 0))
    places = t.elements(("cast", "int64", met), [x, values], "int64")
    return values, scan(t, places, axis, "max")


def _arg(kind: str, t: Tracer, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Compute the position of the first extreme; without a dimension, in the flattened tensor."""
    if dim is None:
        flat = t.reshape(x, (x.size,))
        return t.reshape(_position(t, flat, 0, kind), t.shape)
    axis = t.axis(dim, len(x.shape))
    if not x.shape:
        return t.full((), 0, "int64")
    found = _position(t, x, axis, kind)
    return t.unsqueeze(found, axis) if keepdim else found


def _position(t: Tracer, x: Value, axis: int, kind: str) -> Value:
    labels = tuple(f"d{k}" for k in range(len(x.shape)))
    target = tuple(d for k, d in enumerate(labels) if k != axis)
    attributes = {"axis": labels[axis], "kind": kind, "last": False}
    return t.compute("arg_reduce", [x], [labels], target, "int64", attributes, frozenset((labels[axis],)))


def _extreme_and_place(
    kind: str, t: Tracer, x: Value, dim: int, keepdim: bool = False
) -> tuple[Value, Value]:
    axis = t.axis(dim, len(x.shape))
    if not x.shape:
        return x, t.full((), 0, "int64")
    return t.reduce(x, [axis], kind, keep=keepdim), _arg(kind, t, x, dim, keepdim)


def _sorted(t: Tracer, x: Value, dim: int, count: int, largest: bool) -> tuple[Value, Value]:
    """Sort; return the first `count` elements in order, and their positions."""
    axis = t.axis(dim, len(x.shape))
    places = t.along(
        "arg_sort", x, axis, "int64", {"count": count, "largest": largest, "stable": True}, count
    )
    return t.gather(x, places, axis, [k for k in range(len(x.shape)) if k != axis]), places


def _sort(
    t: Tracer, x: Value, dim: int = -1, descending: bool = False, stable: Any = None
) -> tuple[Value, Value]:
    if not x.shape:
        return x, t.full((), 0, "int64")
    return _sorted(t, x, dim, x.shape[t.axis(dim, len(x.shape))], descending)


def _sort_stable(
    t: Tracer, x: Value, *, stable: Any = None, dim: int = -1, descending: bool = False
) -> tuple[Value, Value]:
    return _sort(t, x, dim, descending)


def _argsort(t: Tracer, x: Value, dim: int = -1, descending: bool = False, stable: Any = None) -> Value:
    return _sort(t, x, dim, descending)[1]


def _topk(
    t: Tracer, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Value, Value]:
    """Return the `k` first elements and their positions, always in order; of equal elements the first ones."""
    return _sorted(t, x, dim, k, largest) if x.shape else (x, t.full((), 0, "int64"))


def _kthvalue(t: Tracer, x: Value, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Value, ...]:
    axis = t.axis(dim, len(x.shape))
    found = _sorted(t, x, dim, k, largest=False)
    last = [t.part(v, axis, range(k - 1, k)) for v in found]
    return tuple(v if keepdim else t.squeeze(v, axis) for v in last)


def _median(t: Tracer, x: Value, dim: int, keepdim: bool = False) -> tuple[Value, ...]:
    return _kthvalue(t, x, (x.shape[t.axis(dim, len(x.shape))] + 1) // 2, dim, keepdim)


def _median_of_all(t: Tracer, x: Value) -> Value:
    return t.reshape(_median(t, t.reshape(x, (x.size,)), 0)[0], ())


def _one_hot(t: Tracer, x: Value, num_classes: int = -1) -> Value:
    """Compare with the coordinate; the number of classes is in the recorded shape."""
    rank = len(x.shape)
    hit = ("eq", ("input", 0), ("index", f"d{rank}"))
    wide = t.expand(t.unsqueeze(x, rank), t.shape)
    return t.elements(("cast", t.dtype, hit), [wide], t.dtype)


def _searchsorted(
    t: Tracer,
    sorted_sequence: Value,
    x: Value,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Value | None = None,
) -> Value:
    """Count the sorted elements below each value, line by line."""
    if sorter is not None:
        raise t.refuse("is unsupported with a sorter")
    rank, last = len(x.shape), len(sorted_sequence.shape)
    below = "ge" if right or side == "right" else "gt"
    line = sorted_sequence if last == 1 else t.unsqueeze(sorted_sequence, last - 1)
    hits = t.cells(
        lambda a, b: call(below, a, b),
        t.unsqueeze(x, rank),
        line,
        dtype=t.dtype,
        within=sorted_sequence.dtype,
    )
    return t.reduce(hits, [rank])


def _bucketize(
    t: Tracer, x: Value, boundaries: Value, *, out_int32: bool = False, right: bool = False
) -> Value:
    """Count the boundaries below each value."""
    rank = len(x.shape)
    below = "ge" if right else "gt"
    wide = t.unsqueeze(x, rank)
    hits = t.cells(lambda a, b: call(below, a, b), wide, boundaries, dtype=t.dtype, within=boundaries.dtype)
    return t.reduce(hits, [rank])


ORDERING: tuple[TorchOperator, ...] = (
    TorchOperator(aten("cumsum"), partial(_cumulative, "sum")),
    TorchOperator(aten("cumprod"), partial(_cumulative, "prod")),
    TorchOperator(aten("logcumsumexp", "_logcumsumexp"), partial(_cumulative, "logsumexp")),
    TorchOperator(aten("cummax"), partial(_cumulative_extreme, "max")),
    TorchOperator(aten("cummin"), partial(_cumulative_extreme, "min")),
    TorchOperator(aten("argmax"), partial(_arg, "max")),
    TorchOperator(aten("argmin"), partial(_arg, "min")),
    TorchOperator(aten("max.dim"), partial(_extreme_and_place, "max")),
    TorchOperator(aten("min.dim"), partial(_extreme_and_place, "min")),
    TorchOperator(aten("sort"), _sort),
    TorchOperator(aten("sort.stable"), _sort_stable),
    TorchOperator(aten("argsort"), _argsort),
    TorchOperator(aten("topk"), _topk),
    TorchOperator(aten("kthvalue"), _kthvalue),
    TorchOperator(aten("median.dim"), _median),
    TorchOperator(aten("median"), _median_of_all),
    TorchOperator(aten("one_hot"), _one_hot),
    TorchOperator(aten("bucketize.Tensor"), _bucketize),
    TorchOperator(aten("searchsorted.Tensor"), _searchsorted),
)
