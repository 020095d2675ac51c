"""Gathers and scatters of any dimension numbers, as reads and writes along one dimension.

Start positions address several dimensions of a tensor at once. Those in which a slice is shorter than the tensor are
merged into one dimension `v`; the positions in it are computed by a cell. All others are whole slices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tapestry.teg.importers.program import Labels, Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, Expr
from tapestry.teg.importers.stablehlo.families.reductions import combine
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.regions import monoid_of, replaces
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator, RegionTranslator, Runner
from tapestry.teg.operators.monoids import identity


class Addressing(NamedTuple):
    """The addressing of a tensor by start positions.

    Per dimension of the tensor: the size of a slice and the label of the slice's dimension in the result (or in the
    updates); labels of batch dimensions are shared with the positions.
    """

    shape: tuple[int, ...]
    slices: tuple[int, ...]
    labels: tuple[str, ...]
    addressed: tuple[int, ...]
    positions: Labels
    depth_axis: int

    @property
    def moving(self) -> tuple[int, ...]:
        """The dimensions in which a slice is shorter than the tensor and begins at a given position."""
        return tuple(d for d in self.addressed if self.slices[d] < self.shape[d])


def _addressing(
    numbers: Mapping[str, Any],
    names: Sequence[str],
    shape: Sequence[int],
    slices: Sequence[int],
    outer: Sequence[int],
) -> Addressing:
    """Build the addressing of a tensor.

    `names`: the keys of window, collapsed, batching, positions' batching and addressed dimensions; `outer`: which
    dimensions of the result are not in the window.
    """
    window, collapsed, batching, own_batching, addressed = (numbers[n] for n in names)
    depth_axis = int(numbers["index_vector_dim"])
    places = [f"i{k}" for k in range(len(outer))]
    position_dims = iter(places)
    rank = len(outer) + 1
    positions = tuple("depth" if k == depth_axis else next(position_dims) for k in range(rank))
    by_dim = {d: positions[p] for d, p in zip(batching, own_batching, strict=True)}
    kept = iter(window)
    labels = tuple(
        by_dim[d] if d in by_dim else "" if d in collapsed else f"w{next(kept)}" for d in range(len(shape))
    )
    return Addressing(tuple(shape), tuple(slices), labels, tuple(addressed), positions, depth_axis)


def _columns(e: Emitter, a: Addressing, starts: Value) -> dict[int, Value]:
    """Return the start position in each moving dimension, without the depth dimension."""
    if a.depth_axis == len(starts.shape):
        return dict.fromkeys(a.moving, starts)
    labels = a.positions
    kept = tuple(d for d in labels if d != "depth")
    shape = [s for k, s in enumerate(starts.shape) if k != a.depth_axis]
    columns = {}
    for k, d in enumerate(a.addressed):
        if d in a.moving:
            part = e.part(starts, a.depth_axis, range(k, k + 1))
            columns[d] = e.relabel(part, labels, kept, shape)
    return columns


def _places(e: Emitter, a: Addressing, columns: Mapping[int, Value], drop: bool) -> tuple[Value, Labels]:
    """Compute positions in the joined dimension, for each start and each element of a window in moving dimensions.

    Starts beyond the last slice are moved to it, or (`drop`) the whole slice gets a position outside.
    """
    sizes = [a.shape[d] for d in a.moving]
    strides = [math.prod(sizes[k + 1 :]) for k in range(len(sizes))]
    kept = tuple(d for d in a.positions if d != "depth")
    windows = [d for d in a.moving if a.slices[d] > 1]
    flat: Expr = ("const", 0)
    valid: Expr = ("const", True)
    for k, (d, stride) in enumerate(zip(a.moving, strides, strict=True)):
        start: Expr = ("cast", "int64", ("input", k))
        limit = ("const", a.shape[d] - a.slices[d])
        if drop:
            valid = ("and", valid, ("and", ("ge", start, ("const", 0)), ("le", start, limit)))
        else:
            start = ("max", ("min", start, limit), ("const", 0))
        within = ("add", start, ("index", f"w{d}")) if d in windows else start
        term = within if stride == 1 else ("mul", within, ("const", stride))
        flat = term if flat == ("const", 0) else ("add", flat, term)
    if drop:
        flat = ("where", valid, flat, ("const", math.prod(sizes)))
    labels = (*kept, *(f"w{d}" for d in windows))
    values = [columns[d] for d in a.moving]
    found = {f"w{d}": a.slices[d] for d in windows}
    attributes = {"expr": flat, "dtype": "int64"}
    made = e.compute("cell", values, [kept] * len(values), labels, "int64", attributes, sizes=found)
    own = {f"w{d}": a.labels[d] for d in windows}
    return made, tuple(own.get(d, d) for d in labels)


def _joined(e: Emitter, a: Addressing, value: Value) -> tuple[Value, Labels, list[int]]:
    """Merge the moving dimensions into one, `v`, at the place of the first.

    Returns the tensor, its labels, and the dimension order used.
    """
    first = a.moving[0]
    if len(a.moving) == 1:
        return (
            value,
            tuple("v" if d == first else n for d, n in enumerate(a.labels)),
            list(range(len(a.shape))),
        )
    rest = [d for d in range(len(a.shape)) if d not in a.moving]
    before = [d for d in rest if d < first]
    order = [*before, *a.moving, *(d for d in rest if d > first)]
    turned = e.permute(value, order)
    joined = e.reshape(turned, _joined_shape(a, order))
    labels = tuple(a.labels[d] for d in before)
    return joined, (*labels, "v", *(a.labels[d] for d in rest if d > first)), order


def _joined_shape(a: Addressing, order: Sequence[int]) -> list[int]:
    sizes = [math.prod(a.shape[m] for m in a.moving) if d == a.moving[0] else a.shape[d] for d in order]
    return [s for d, s in zip(order, sizes, strict=True) if d not in a.moving[1:]]


def _parted(e: Emitter, a: Addressing, value: Value, order: Sequence[int]) -> Value:
    """Split the merged dimension into the moving dimensions again, in their own places."""
    if len(a.moving) == 1:
        return value
    opened = e.reshape(value, [a.shape[d] for d in order])
    return e.permute(opened, [list(order).index(d) for d in range(len(order))])


GATHER_NAMES = (
    *("offset_dims", "collapsed_slice_dims", "operand_batching_dims"),
    *("start_indices_batching_dims", "start_index_map"),
)
SCATTER_NAMES = (
    *("update_window_dims", "inserted_window_dims", "input_batching_dims"),
    *("scatter_indices_batching_dims", "scattered_dims_to_operand_dims"),
)


def _gather(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    table, starts = operands
    numbers, slices = operation.get("dimension_numbers"), operation.get("slice_sizes")
    shape = operation.types[0].shape
    outer = [d for d in range(len(shape)) if d not in numbers["offset_dims"]]
    a = _addressing(numbers, GATHER_NAMES, table.shape, slices, outer)
    fixed = [d for d in range(len(table.shape)) if d not in a.moving and not a.labels[d].startswith("i")]
    table = e.slice(table, [range(slices[d]) if d in fixed else range(s) for d, s in enumerate(table.shape)])
    a = a._replace(shape=table.shape)
    places = iter(d for d in a.positions if d != "depth")
    target = tuple(f"w{d}" if d in numbers["offset_dims"] else next(places) for d in range(len(shape)))
    if not a.moving:
        return _repeated(e, a, table, target, shape)
    positions, position_labels = _places(e, a, _columns(e, a, starts), drop=False)
    joined, labels, _ = _joined(e, a, table)
    joined, labels = _without_units(e, joined, labels)
    wanted = tuple(d for d in target if d in labels or d in position_labels)
    sizes = [s for d, s in zip(target, shape, strict=True) if d in wanted]
    attributes = {"axis": "v"}
    made = e.compute(
        "gather",
        [joined, positions],
        [labels, position_labels],
        wanted,
        table.dtype,
        attributes,
        frozenset("v"),
    )
    return (
        e.relabel(made, wanted, tuple(d if d in wanted else "" for d in target), shape)
        if len(sizes) < len(shape)
        else made
    )


def _without_units(e: Emitter, value: Value, labels: Labels) -> tuple[Value, Labels]:
    """Remove the dimensions of size 1 that the result does not have."""
    if all(labels):
        return value, labels
    kept = tuple(d for d in labels if d)
    shape = [s for s, d in zip(value.shape, labels, strict=True) if d]
    own = tuple(d or f"u{k}" for k, d in enumerate(labels))
    return e.relabel(value, own, kept, shape), kept


def _repeated(e: Emitter, a: Addressing, table: Value, target: Labels, shape: Sequence[int]) -> Value:
    """Broadcast one slice to all positions, where no position matters."""
    kept, labels = _without_units(e, table, a.labels)
    return e.relabel(kept, labels, tuple(d if d in labels else "" for d in target), shape)


def _scatter(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    e, count = runner.emitter, len(operands) // 2
    if count != 1:
        raise e.refuse(f"of {count} tensors at once is unsupported; scatter them one by one")
    base, starts, updates = operands
    body = operation.regions[0]
    monoid = "last" if replaces(body) else monoid_of(body, base.dtype == "bool")
    if monoid is None:
        raise e.refuse("is supported where its body adds, multiplies, keeps an extreme or replaces")
    return [scattered(e, operation.get("scatter_dimension_numbers"), base, starts, updates, monoid)]


def scattered(
    e: Emitter, numbers: Mapping[str, Any], base: Value, starts: Value, updates: Value, monoid: str
) -> Value:
    """Combine updates into `base` at the positions; slices that would extend beyond it are dropped."""
    window = numbers["update_window_dims"]
    outer = [d for d in range(len(updates.shape)) if d not in window]
    slices = _slice_sizes(numbers, base, updates)
    a = _addressing(numbers, SCATTER_NAMES, base.shape, slices, outer)
    places = iter(d for d in a.positions if d != "depth")
    update_labels = tuple(f"w{d}" if d in window else next(places) for d in range(len(updates.shape)))
    if not a.moving:
        return _everywhere(e, a, base, updates, update_labels, monoid)
    positions, position_labels = _places(e, a, _columns(e, a, starts), drop=True)
    joined, labels, order = _joined(e, a, base)
    unit = tuple(d or f"u{k}" for k, d in enumerate(labels))
    updates, update_labels = _with_units(e, updates, update_labels, unit, joined.shape)
    attributes: dict[str, Any] = {"axis": "v", "monoid": monoid, "mode": "drop"}
    if monoid == "last":
        made = e.compute(
            "scatter",
            [joined, positions, updates],
            [unit, position_labels, update_labels],
            unit,
            base.dtype,
            attributes,
            frozenset("v"),
        )
        return _parted(e, a, made, order)
    attributes["size"] = joined.shape[labels.index("v")]
    sizes = dict(zip(unit, joined.shape, strict=True))
    made = e.compute(
        "scatter",
        [positions, updates],
        [position_labels, update_labels],
        unit,
        base.dtype,
        attributes,
        frozenset("v"),
        sizes,
    )
    return _combined(e, base, _parted(e, a, made, order), monoid)


def _combined(e: Emitter, base: Value, made: Value, monoid: str) -> Value:
    known = e.translation.literal(base.name)
    start = identity(monoid, base.dtype)
    if known is not None and bool((known.array == known.array.dtype.type(start)).all()):
        return made
    return combine(e, base, made, monoid)


def _slice_sizes(numbers: Mapping[str, Any], base: Value, updates: Value) -> list[int]:
    window = iter(numbers["update_window_dims"])
    single = {*numbers["inserted_window_dims"], *numbers["input_batching_dims"]}
    return [1 if d in single else updates.shape[next(window)] for d in range(len(base.shape))]


def _with_units(
    e: Emitter, updates: Value, labels: Labels, unit: Labels, shape: Sequence[int]
) -> tuple[Value, Labels]:
    """Add to the updates the dimensions of size 1 that the base has and they lack."""
    lacking = [d for d, s in zip(unit, shape, strict=True) if d.startswith("u") and s == 1]
    if not lacking:
        return updates, labels
    target = (*("",) * len(lacking), *labels)
    opened = e.relabel(updates, labels, target, (*(1,) * len(lacking), *updates.shape))
    return opened, (*lacking, *labels)


def _everywhere(e: Emitter, a: Addressing, base: Value, updates: Value, labels: Labels, monoid: str) -> Value:
    """Combine all updates into the whole tensor, where every slice is the whole tensor."""
    kept = {d for d in a.labels if d}
    extra = [k for k, d in enumerate(labels) if d not in kept]
    if monoid == "last":
        for k in sorted(extra, reverse=True):
            size = updates.shape[k]
            updates = e.part(updates, k, range(size - 1, size))
        remaining = updates
        names = tuple(d for d in labels)
    else:
        remaining = e.reduce(updates, extra, monoid)
        names = tuple(d for d in labels if d in kept)
    target = tuple(d if d else "" for d in a.labels)
    aligned = e.relabel(remaining, names, target, base.shape)
    return aligned if monoid == "last" else combine(e, base, aligned, monoid)


INDEXING: tuple[HloTranslator | RegionTranslator, ...] = (
    HloTranslator(("stablehlo.gather",), _gather),
    RegionTranslator(("stablehlo.scatter",), _scatter),
)
