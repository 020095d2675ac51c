"""Writes by index: elements of a source put into, or combined with, a tensor at places that an index names."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.indexing import flat_index, opened_mask
from tapestry.teg.importers.torch.families.slice_scatter import replaced
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import call
from tapestry.teg.importers.translate.builder import ValueOrNumber

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
MONOIDS = {"add": "sum", "multiply": "prod", "sum": "sum", "prod": "prod", "amax": "max", "amin": "min"}


def _source(t: Tracer, src: ValueOrNumber, index: Value, dtype: str) -> Value:
    """Return the source at the index's shape: a number is broadcast, a larger source is cropped."""
    if not isinstance(src, Value):
        return t.full(index.shape, src, dtype)
    return t.slice(t.cast(src, dtype), [range(s) for s in index.shape])


def _write(t: Tracer, x: Value, dim: int, index: Value, src: ValueOrNumber, monoid: str) -> Value:
    """Write `src` into `x` along `dim`, with the other dimensions aligned."""
    if not x.shape:
        x, index = t.reshape(x, (1,)), t.reshape(index, (1,))
        src = t.reshape(src, (1,)) if isinstance(src, Value) else src
        return t.reshape(_write(t, x, 0, index, src, monoid), ())
    axis = t.axis(dim, len(x.shape))
    written = _source(t, src, index, x.dtype)
    ranges = [range(s) if k == axis else range(index.shape[k]) for k, s in enumerate(x.shape)]
    part = t.slice(x, ranges)
    if index.shape[axis] == 1:
        part = _written_once(t, part, axis, index, written, monoid)
    else:
        others = [k for k in range(len(x.shape)) if k != axis]
        part = _combined(t, part, index, written, axis, others, monoid)
    return _put_back(t, x, part, axis)


def _written_once(t: Tracer, x: Value, axis: int, index: Value, src: Value, monoid: str) -> Value:
    """Write one place per line by comparison with the coordinate, which is exact and splits along every dimension."""
    read = ("input", 1)
    size = ("const", x.shape[axis])
    place = ("where", ("lt", read, ("const", 0)), ("add", read, size), read)
    hit = ("eq", ("index", f"d{axis}"), place)
    new = ("input", 2) if monoid == "last" else (COMBINE[monoid], ("input", 0), ("input", 2))
    return t.elements(("where", hit, new, ("input", 0)), [x, index, src], x.dtype)


def _combined(
    t: Tracer, x: Value, index: Value, src: Value, axis: int, aligned: Sequence[int], monoid: str
) -> Value:
    if monoid == "last":
        return t.scatter(index, src, axis, x.shape[axis], aligned, "last", base=x)
    found = t.scatter(index, src, axis, x.shape[axis], aligned, monoid)
    known = t.known(x)
    if monoid == "sum" and known is not None and not known.array.any():
        return found
    return t.cells(lambda a, b: call(COMBINE[monoid], a, b), x, found, dtype=x.dtype)


def _put_back(t: Tracer, x: Value, part: Value, axis: int) -> Value:
    """Put the part back into the corner of the whole."""
    for k in range(len(x.shape)):
        if part.shape[k] == x.shape[k] or k == axis:
            continue
        wide = [range(s) if j <= k or j == axis else range(part.shape[j]) for j, s in enumerate(x.shape)]
        part = replaced(t, t.slice(x, wide), part, k, range(part.shape[k]))
    return part


def _scatter(
    t: Tracer, x: Value, dim: int, index: Value, src: ValueOrNumber = 0, value: Any = None, reduce: Any = None
) -> Value:
    return _write(t, x, dim, index, src if value is None else value, MONOIDS[reduce] if reduce else "last")


def _scatter_add(t: Tracer, x: Value, dim: int, index: Value, src: Value) -> Value:
    return _write(t, x, dim, index, src, "sum")


def _scatter_reduce(
    t: Tracer, x: Value, dim: int, index: Value, src: Value, reduce: str, *, include_self: bool = True
) -> Value:
    """Scatter with a reduction; with `include_self` the previous element is one of those that are combined."""
    if reduce == "mean" and "float" in x.dtype:
        return _scatter_mean(t, x, dim, index, src, include_self)
    if reduce not in MONOIDS:
        raise t.refuse(f"is unsupported with reduce={reduce!r}")
    if include_self:
        return _write(t, x, dim, index, src, MONOIDS[reduce])
    hits = _write(t, t.full(x.shape, 0, "int64"), dim, index, t.full(index.shape, 1, "int64"), "sum")
    neutral = {"sum": 0, "prod": 1, "max": _lowest(x.dtype), "min": -_lowest(x.dtype)}[MONOIDS[reduce]]
    start = t.full(x.shape, neutral, x.dtype)
    found = _write(t, start, dim, index, src, MONOIDS[reduce])
    tree = ("where", ("gt", ("input", 0), ("const", 0)), ("input", 1), ("input", 2))
    return t.elements(tree, [hits, found, x], x.dtype)


def _scatter_mean(t: Tracer, x: Value, dim: int, index: Value, src: Value, include_self: bool) -> Value:
    """Compute means as sums over counts; places that nothing is written to stay."""
    hits = _write(t, t.full(x.shape, 0, x.dtype), dim, index, t.full(index.shape, 1, x.dtype), "sum")
    start = x if include_self else t.full(x.shape, 0, x.dtype)
    found = _write(t, start, dim, index, src, "sum")
    count = ("add", ("input", 0), ("const", 1)) if include_self else ("input", 0)
    mean = ("div", ("input", 1), ("max", count, ("const", 1)))
    tree = ("where", ("gt", ("input", 0), ("const", 0)), mean, ("input", 2))
    return t.elements(tree, [hits, found, x], x.dtype)


def _lowest(dtype: str) -> float:
    return -math.inf if "float" in dtype else -(2**31)


def _index_put(
    t: Tracer,
    x: Value,
    indices: Sequence[Value | None],
    values: Value,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Value:
    """Write `x[indices] = values`, or `+=`: the indexed dimensions are flattened to one."""
    given = [v for v in indices if v is not None]
    where = [k for k, v in enumerate(indices) if v is not None]
    if len(given) == 1 and given[0].dtype == "bool":
        return _masked_put(t, x, where[0], given[0], values, accumulate)
    given = [opened_mask(t, v) for v in given]
    together = where == list(range(where[0], where[0] + len(where)))
    rest = [k for k in range(len(x.shape)) if k not in where]
    at = where[0] if together else 0
    order = [*rest[:at], *where, *rest[at:]]
    table = t.permute(x, order)
    sizes = [x.shape[k] for k in where]
    place = given[0] if len(given) == 1 else flat_index(t, given, sizes)
    lead, tail = table.shape[:at], table.shape[at + len(sizes) :]
    src = t.expand(t.cast(values, x.dtype), (*lead, *place.shape, *tail))
    flat = t.reshape(table, (*lead, math.prod(sizes), *tail))
    found = _combined(t, flat, place, src, at, (), "sum" if accumulate else "last")
    back = [order.index(k) for k in range(len(order))]
    return t.permute(t.reshape(found, table.shape), back)


def _masked_put(t: Tracer, x: Value, axis: int, mask: Value, values: Value, accumulate: bool) -> Value:
    """Put one value where a mask holds, as a selection."""
    if values.size != 1:
        raise t.refuse(
            "puts several values where a mask holds: where each goes depends on data, which is unsupported"
        )
    opened = t.reshape(mask, (*mask.shape, *(1,) * (len(x.shape) - axis - len(mask.shape))))
    number = t.reshape(t.cast(values, x.dtype), ())
    new = ("add", ("input", 1), ("input", 2)) if accumulate else ("input", 2)
    return t.elements(("where", ("input", 0), new, ("input", 1)), [opened, x, number], x.dtype)


def _index_add(t: Tracer, x: Value, dim: int, index: Value, source: Value, *, alpha: float = 1) -> Value:
    axis = t.axis(dim, len(x.shape))
    src = source if alpha == 1 else t.cells(lambda a: a * alpha, source, dtype=source.dtype)
    return _combined(t, x, index, src, axis, (), "sum")


def _index_copy(t: Tracer, x: Value, dim: int, index: Value, source: Value) -> Value:
    return _combined(t, x, index, source, t.axis(dim, len(x.shape)), (), "last")


def _index_fill(t: Tracer, x: Value, dim: int, index: Value, value: ValueOrNumber) -> Value:
    axis = t.axis(dim, len(x.shape))
    shape = [index.size if k == axis else s for k, s in enumerate(x.shape)]
    src = (
        t.expand(t.cast(value, x.dtype), shape) if isinstance(value, Value) else t.full(shape, value, x.dtype)
    )
    return _combined(t, x, index, src, axis, (), "last")


def _embedding_backward(
    t: Tracer,
    grad_output: Value,
    indices: Value,
    num_weights: int,
    padding_idx: int,
    scale_grad_by_freq: bool,
) -> Value:
    """Add gradients to the rows they came from; those of the padding row are dropped."""
    if scale_grad_by_freq:
        raise t.refuse("is unsupported with scale_grad_by_freq")
    if padding_idx >= 0:
        hit = ("eq", ("input", 1), ("const", padding_idx))
        opened = t.reshape(indices, (*indices.shape, 1))
        zero = ("cast", grad_output.dtype, ("const", 0))
        grad_output = t.elements(("where", hit, zero, ("input", 0)), [grad_output, opened], grad_output.dtype)
    return t.scatter(indices, grad_output, 0, num_weights)


def _masked_scatter(t: Tracer, x: Value, mask: Value, source: Value) -> Value:
    """Fill the k-th place of the mask with the k-th element of the source, by a running sum of the mask."""
    shape = t.shape
    flat_mask = t.reshape(t.expand(mask, shape), (math.prod(shape),))
    before = t.along(
        "scan", t.cast(flat_mask, "int64"), 0, "int64", {"monoid": "sum", "exclusive": True, "reverse": False}
    )
    last = t.cells(lambda a: call("min", a, source.size - 1), before, dtype="int64")
    found = t.reshape(t.gather(t.reshape(source, (source.size,)), last, 0), shape)
    return t.elements(("where", ("input", 0), ("input", 1), ("input", 2)), [mask, found, x], x.dtype)


SCATTERING: tuple[TorchOperator, ...] = (
    TorchOperator(aten("scatter.src", "scatter.value", "scatter.reduce", "scatter.value_reduce"), _scatter),
    TorchOperator(aten("scatter_add"), _scatter_add),
    TorchOperator(aten("scatter_reduce.two"), _scatter_reduce),
    TorchOperator(aten("index_put", "_unsafe_index_put"), _index_put),
    TorchOperator(aten("index_add"), _index_add),
    TorchOperator(aten("index_copy"), _index_copy),
    TorchOperator(aten("index_fill.int_Scalar", "index_fill.int_Tensor"), _index_fill),
    TorchOperator(aten("embedding_dense_backward"), _embedding_backward),
    TorchOperator(aten("masked_scatter"), _masked_scatter),
)
