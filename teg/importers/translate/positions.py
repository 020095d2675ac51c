"""Steps that read, write or find positions, for translators of any front end; dimensions are numbers here."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.importers.program import Compute, Labels
from tapestry.teg.importers.translate.translation import Translation, plain_labels

# The label of the dimension that positions count along.
AXIS = "v"

Pairs = Sequence[tuple[int, int]]


def gather(
    t: Translation,
    site: str,
    table: str,
    indices: str,
    output: str,
    axis: int,
    aligned: Pairs = (),
    mode: str = "strict",
) -> str:
    """Gather slices of a table along `axis` by indices; `aligned` (table, indices) dimensions are shared."""
    source, places = t.value(table), t.value(indices)
    own, index, free = _labels(len(source.shape), len(places.shape), axis, aligned)
    sizes = dict(zip(index, places.shape, strict=True))
    shape = (*source.shape[:axis], *(sizes[d] for d in free), *source.shape[axis + 1 :])
    t.declare(output, shape, source.dtype)
    attrs = {"axis": AXIS} if mode == "strict" else {"axis": AXIS, "mode": mode}
    target = (*own[:axis], *free, *own[axis + 1 :])
    names = (source.name, places.name)
    return t.emit(Compute(site, "gather", names, output, (own, index), target, attrs, frozenset((AXIS,))))


def scatter(
    t: Translation,
    site: str,
    indices: str,
    updates: str,
    output: str,
    axis: int,
    aligned: Pairs = (),
    monoid: str = "sum",
    base: str | None = None,
    size: int = 0,
    mode: str = "strict",
) -> str:
    """Scatter updates to positions along `axis`: over `base` ("last"), or combined in a new tensor of `size`."""
    places, values = t.value(indices), t.value(updates)
    rank = len(values.shape) - (len(places.shape) - len(aligned)) + 1
    own, index, free = _labels(rank, len(places.shape), axis, aligned)
    read = (*own[:axis], *free, *own[axis + 1 :])
    sizes = dict(zip(read, values.shape, strict=True))
    names: tuple[str, ...] = (places.name, values.name)
    labels: tuple[Labels, ...] = (index, read)
    if base is not None:
        target = t.value(base)
        names, labels, size = (target.name, *names), (own, *labels), target.shape[axis]
    t.declare(output, [size if d == AXIS else sizes[d] for d in own], values.dtype)
    attrs = {"axis": AXIS, "monoid": monoid} | ({} if mode == "strict" else {"mode": mode})
    return t.emit(Compute(site, "scatter", names, output, labels, own, attrs, frozenset((AXIS,))))


def _labels(rank: int, index_rank: int, axis: int, aligned: Pairs) -> tuple[Labels, Labels, Labels]:
    """Return the labels of a table, of indices, and of those dimensions of the indices that are not aligned."""
    own = tuple(AXIS if k == axis else f"d{k}" for k in range(rank))
    partner = {k: own[d] for d, k in aligned}
    index = tuple(partner.get(k, f"i{k}") for k in range(index_rank))
    return own, index, tuple(d for k, d in enumerate(index) if k not in partner)


def scan(
    t: Translation,
    site: str,
    name: str,
    output: str,
    axis: int,
    monoid: str = "sum",
    exclusive: bool = False,
    reverse: bool = False,
) -> str:
    """Compute the running sum (or another monoid) along `axis`."""
    value = t.value(name)
    labels = plain_labels(len(value.shape))
    t.declare(output, value.shape, value.dtype)
    attrs = {"axis": labels[axis], "monoid": monoid, "exclusive": exclusive, "reverse": reverse}
    whole = frozenset((labels[axis],))
    return t.emit(Compute(site, "scan", (value.name,), output, (labels,), labels, attrs, whole))


def arg_reduce(
    t: Translation, site: str, name: str, output: str, axis: int, kind: str, last: bool = False
) -> str:
    """Compute the position along `axis` of the greatest ("max") or least ("min") element; the axis is removed."""
    value = t.value(name)
    labels = plain_labels(len(value.shape))
    t.declare(output, (*value.shape[:axis], *value.shape[axis + 1 :]), "int64")
    target = (*labels[:axis], *labels[axis + 1 :])
    attrs = {"axis": labels[axis], "kind": kind, "last": last}
    whole = frozenset((labels[axis],))
    return t.emit(Compute(site, "arg_reduce", (value.name,), output, (labels,), target, attrs, whole))


def arg_sort(t: Translation, site: str, name: str, output: str, axis: int, count: int, largest: bool) -> str:
    """Compute the positions along `axis` of the first `count` elements in order, the largest or the smallest first."""
    value = t.value(name)
    labels = plain_labels(len(value.shape))
    t.declare(output, (*value.shape[:axis], count, *value.shape[axis + 1 :]), "int64")
    target = (*labels[:axis], "count", *labels[axis + 1 :])
    attrs = {"axis": labels[axis], "count": count, "largest": largest}
    whole = frozenset((labels[axis], "count"))
    return t.emit(Compute(site, "arg_sort", (value.name,), output, (labels,), target, attrs, whole))


def take_along(t: Translation, site: str, table: str, indices: str, output: str, axis: int) -> str:
    """Gather as `numpy.take_along_axis`: all dimensions but `axis` are aligned."""
    rank = len(t.value(table).shape)
    return gather(t, site, table, indices, output, axis, [(k, k) for k in range(rank) if k != axis])
