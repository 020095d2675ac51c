"""Gathers and scatters; over a part of the indexed dimension, positions elsewhere give or take nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapestry.teg.exporters.spmd.array_text import ArrayText, TextValue
from tapestry.teg.exporters.spmd.writers.operand import OperatorWriter, TextOperand, extents
from tapestry.teg.graph import Definition
from tapestry.teg.operators.indexing import Indexing
from tapestry.teg.operators.monoids import identity


def _plan(definition: Definition, rank: int, positions: TextValue) -> Indexing:
    aligned = definition.get("aligned", ())
    used = [k for _, k in aligned]
    free = tuple(k for k in range(positions.rank) if k not in used)
    return Indexing(definition["axis"] % rank, aligned, free, rank)


def _wrapped(xp: ArrayText, positions: TextValue, size: int, mode: str) -> TextValue:
    """Count negative strict positions from the end, and move clipped ones inside."""
    positions = xp.cast(positions, "int64")
    if mode == "clip":
        return xp.call("clip", xp.short(positions).text, "0", str(size - 1), like=positions)
    if mode != "strict":
        return positions
    named = xp.named(positions)
    return xp.call("where", f"{named.text} < 0", f"{named.text} + {size}", named.text, like=named)


def write_gather(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a gather along one dimension of a table."""
    assert definition.signature is not None
    table, positions = (o.value for o in operands)
    mode, size = definition.get("mode", "strict"), definition.signature.dims[-1].size
    plan = _plan(definition, table.rank, positions)
    start, stop = index[:, -1, 0], index[:, -1, 1]
    everywhere = xp.same(start) == 0 and xp.same(stop) == size and mode != "fill"
    if everywhere and not plan.aligned:
        # PyTorch counts negative positions from the end itself, and refuses those outside.
        if mode == "strict":
            places = xp.short(xp.cast(positions, "int64"))
        else:
            places = xp.short(_wrapped(xp, positions, size, mode))
        axis = plan.axis
        shape = np.concatenate([table.shape[:, :axis], positions.shape, table.shape[:, axis + 1 :]], axis=1)
        return (xp.getitem(table, [*[slice(None)] * axis, places.text], shape),)
    places = _wrapped(xp, positions, size, mode)
    if not plan.aligned and plan.axis == 0:
        return (_rows_of(xp, table, places, (start, stop)),)
    flat = _grouped(xp, places, ([k for _, k in plan.aligned], plan.free))
    rows = xp.short(_grouped(xp, table, ([t for t, _ in plan.aligned], [plan.axis], plan.rest)))
    batch = rows.shape[:, 0]
    lead = f"{xp.library}.arange({xp.number(batch)})[:, None]"
    shape = np.stack([batch, flat.shape[:, 1], rows.shape[:, 2]], axis=1)
    if everywhere:
        found = TextValue(f"{rows.text}[{lead}, {xp.short(flat).text}]", shape, table.dtype)
        return (_gathered(xp, plan, found, table, positions),)
    local, inside = _located(xp, flat, (start, stop))
    near = f"{xp.library}.where({inside.text}, {local.text}, 0)"
    found = xp.named(TextValue(f"{rows.text}[{lead}, {near}]", shape, table.dtype))
    kept = _zeroed(xp, f"{inside.text}[:, :, None]", found)
    return (_gathered(xp, plan, kept, table, positions),)


def _zeroed(xp: ArrayText, inside: str, found: TextValue) -> TextValue:
    """Write zeros for what was read where nothing is; in its place, if that is an array by now."""
    zero = "False" if found.dtype == "bool" else "0"
    if xp.eager:
        return xp.method(found, "masked_fill_", f"~{inside}", zero)
    return xp.call("where", inside, found.text, zero, like=found)


def _located(
    xp: ArrayText, positions: TextValue, part: tuple[np.ndarray, np.ndarray]
) -> tuple[TextValue, TextValue]:
    """Return positions counted from the start of a part, and whether they lie in it."""
    start, stop = part
    first, extent = xp.number(start), xp.number(stop - start)
    moved = replace(positions, text=f"{xp.inner(positions, 6)} - {_product(first)}", level=6)
    local = xp.named(positions if first == "0" else moved)
    text = f"({local.text} >= 0) & ({local.text} < {extent})"
    return local, xp.named(replace(local, text=text, dtype="bool", level=4))


def _rows_of(
    xp: ArrayText, table: TextValue, places: TextValue, part: tuple[np.ndarray, np.ndarray]
) -> TextValue:
    """Write the rows of a part of a table; positions elsewhere give zeros."""
    local, inside = _located(xp, places, part)
    shape = np.concatenate([places.shape, table.shape[:, 1:]], axis=1)
    near = f"{xp.library}.where({inside.text}, {local.text}, 0)"
    found = xp.named(xp.getitem(table, [near], shape))
    mask = xp.getitem(inside, [..., *[None] * (table.rank - 1)], shape) if table.rank > 1 else inside
    return _zeroed(xp, mask.text, found)


def _grouped(xp: ArrayText, value: TextValue, groups: Sequence[Sequence[int]]) -> TextValue:
    """Merge each group of dimensions into one."""
    moved = xp.permute_dims(value, [k for group in groups for k in group])
    shape = np.stack([np.prod(value.shape[:, list(g)], axis=1, dtype=np.int64) for g in groups], axis=1)
    return xp.reshape(moved, shape)


def _ungrouped(
    xp: ArrayText, flat: TextValue, groups: Sequence[Sequence[int]], shape: np.ndarray
) -> TextValue:
    """Invert `_grouped`: `shape` is that before grouping."""
    order = [k for group in groups for k in group]
    return xp.permute_dims(xp.reshape(flat, shape[:, order]), list(np.argsort(order)))


def _places(plan: Indexing) -> list[list[int]]:
    between = list(range(plan.axis, plan.axis + len(plan.free)))
    return [[plan.place(t) for t, _ in plan.aligned], between, [plan.place(k) for k in plan.rest]]


def _gathered(
    xp: ArrayText, plan: Indexing, flat: TextValue, table: TextValue, positions: TextValue
) -> TextValue:
    free = positions.shape[:, list(plan.free)]
    shape = np.concatenate([table.shape[:, : plan.axis], free, table.shape[:, plan.axis + 1 :]], axis=1)
    return _ungrouped(xp, flat, _places(plan), shape)


def write_scatter(
    xp: ArrayText, definition: Definition, index: np.ndarray, operands: Sequence[TextOperand]
) -> tuple[TextValue, ...]:
    """Write a scatter: updates for places elsewhere go to one more row, which is cut off."""
    assert definition.signature is not None
    positions, updates = (o.value for o in operands[-2:])
    monoid = definition["monoid"]
    rank = len(definition.signature.outputs[0].shape)
    shape = extents(index)[:, :rank]
    plan = _plan(definition, rank, positions)
    axis, dtype = plan.axis, updates.dtype
    places = _wrapped(xp, positions, definition.signature.dims[axis].size, definition.get("mode", "strict"))
    flat = _grouped(xp, places, ([k for _, k in plan.aligned], plan.free))
    groups = [[t for t, _ in plan.aligned], [axis], list(plan.rest)]
    sizes = np.stack([np.prod(shape[:, g], axis=1, dtype=np.int64) for g in groups], axis=1)
    rows = _rows(xp, flat, (index[:, axis, 0], sizes))
    values = _grouped(xp, updates, _places(plan))
    merged = np.stack([values.shape[:, 0] * values.shape[:, 1], values.shape[:, 2]], axis=1)
    values = xp.reshape(values, merged)
    count = sizes[:, 0] * sizes[:, 1]
    grown = np.stack([count + 1, sizes[:, 2]], axis=1)
    if monoid == "last":
        base = xp.reshape(_grouped(xp, operands[0].value, groups), grown - np.array([1, 0]))
        flat_result = _last(xp, base, rows, values, count)
    else:
        flat_result = _combined(xp, monoid, rows, values, (grown, dtype))
    return (_ungrouped(xp, xp.reshape(flat_result, sizes), groups, shape),)


def _rows(xp: ArrayText, flat: TextValue, space: tuple[np.ndarray, np.ndarray]) -> TextValue:
    """Return the row of each update in the flattened part, one beyond the last for places elsewhere."""
    start, sizes = space
    local, inside = _located(xp, flat, (start, start + sizes[:, 1]))
    extent = xp.number(sizes[:, 1])
    lead = xp.number(sizes[:, 0])
    wide = xp.number(sizes[:, 0] * sizes[:, 1])
    own = (
        local.text
        if lead == "1"
        else f"{xp.library}.arange({lead})[:, None] * {_times(extent)} + {local.text}"
    )
    own_name = xp.named(replace(local, text=own, level=6))
    found = xp.call("where", inside.text, own_name.text, wide, like=local)
    shape = (flat.shape[:, 0] * flat.shape[:, 1])[:, None]
    return xp.named(TextValue(f"{found.text}.reshape(-1)", shape, "int64"))


def _product(text: str) -> str:
    return f"({text})" if " + " in text or " - " in text else text


def _times(text: str) -> str:
    return text if text.isidentifier() or text.isdecimal() else f"({text})"


def _combined(
    xp: ArrayText, monoid: str, rows: TextValue, values: TextValue, result: tuple[np.ndarray, str]
) -> TextValue:
    grown, dtype = result
    wide = {"float16": "float32", "bfloat16": "float32", "bool": "uint8"}.get(dtype, dtype)
    start = identity(monoid, dtype)
    into = xp.full(grown, int(start) if dtype == "bool" else start, wide)
    values = xp.short(xp.cast(values, wide))
    whole = xp.named(xp.combine_rows(xp.short(into), rows, values, monoid))
    return xp.cast(TextValue(f"{whole.text}[:-1]", grown - np.array([1, 0]), wide), dtype)


def _last(xp: ArrayText, base: TextValue, rows: TextValue, values: TextValue, count: np.ndarray) -> TextValue:
    """Keep the update that comes last in each place: the one with the greatest number."""
    total = xp.number(rows.shape[:, 0])
    one = (count + 1)[:, None]
    numbers = TextValue(f"{xp.library}.arange({total})", rows.shape, "int64")
    newest = xp.named(xp.combine_rows(xp.full(one, -1, "int64"), rows, numbers, "max"))
    order = xp.named(replace(newest, text=f"{newest.text}[:-1, None]"))
    if xp.same(rows.shape[:, 0]) == 0:
        return base
    rows_chosen = xp.call("clip", f"{order.text}[:, 0]", like=order, min="0")
    chosen = f"{xp.short(values).text}[{rows_chosen.text}]"
    like = replace(base, level=9)
    return xp.call(
        "where", f"{order.text} >= 0", xp.named(replace(like, text=chosen)).text, base.text, like=like
    )


INDEXING: dict[str, OperatorWriter] = {"gather": write_gather, "scatter": write_scatter}
