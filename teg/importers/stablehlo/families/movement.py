"""Operations that only move elements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter, X
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator
from tapestry.teg.importers.translate.translation import plain_labels


def _constant(e: Emitter, operation: Operation, _: Sequence[Value]) -> Value:
    return e.constant(np.asarray(operation.get("value")))


def _size(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.constant(np.asarray(operands[0].shape[int(operation.get("dimension"))], np.int32))


def _iota(e: Emitter, operation: Operation, _: Sequence[Value]) -> Value:
    kind = operation.types[0]
    return e.line(kind.shape, int(operation.get("iota_dimension")), kind.dtype)


def _broadcast(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Broadcast a value: dimension `k` of the operand becomes dimension `dims[k]`; a size 1 may grow."""
    shape = operation.types[0].shape
    dims = operation.get("broadcast_dimensions")
    grows = [operands[0].shape[k] != shape[d] for k, d in enumerate(dims)]
    source = tuple("" if grows[k] else f"d{d}" for k, d in enumerate(dims))
    target = tuple(f"d{d}" if f"d{d}" in source else "" for d in range(len(shape)))
    return e.relabel(operands[0], source, target, shape)


def _transpose(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.permute(operands[0], operation.get("permutation"))


def _reshape(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Reshape a value; if only sizes 1 are added or removed it is a relabeling, else a reshape."""
    value, shape = operands[0], operation.types[0].shape
    if [s for s in value.shape if s != 1] == [s for s in shape if s != 1]:
        return squeezed(e, value, shape)
    return e.reshape(value, shape)


def squeezed(e: Emitter, value: Value, shape: Sequence[int]) -> Value:
    """Add or remove dimensions of size 1 so that the value has shape `shape`."""
    numbers = iter(range(len(value.shape)))
    source = tuple("" if s == 1 else f"d{next(numbers)}" for s in value.shape)
    numbers = iter(range(len(value.shape)))
    target = tuple("" if s == 1 else f"d{next(numbers)}" for s in shape)
    return value if value.shape == tuple(shape) else e.relabel(value, source, target, shape)


def _slice(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    bounds = zip(*(operation.get(n) for n in ("start_indices", "limit_indices", "strides")), strict=True)
    return e.slice(operands[0], [range(*b) for b in bounds])


def _reverse(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return reversed_along(e, operands[0], operation.get("dimensions"))


def reversed_along(e: Emitter, value: Value, dims: Sequence[int]) -> Value:
    """Reverse the value along `dims`."""
    ranges = [range(s - 1, -1, -1) if k in dims and s > 1 else range(s) for k, s in enumerate(value.shape)]
    return e.slice(value, ranges)


def _concatenate(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    return e.concat(operands, int(operation.get("dimension")))


def _pad(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Pad a value: interior gaps first, then the edges; a negative edge removes elements."""
    value, fill = operands
    low, high, gaps = (
        operation.get(f"{side}") for side in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    known = e.known(fill)
    if known is not None:
        number = known.reshape(()).item() if value.dtype != "bfloat16" else float(known.reshape(()))
        return e.pad(e.spread(value, gaps, number), low, high, number)
    mask = e.full(value.shape, True, "bool")
    inside = e.pad(e.spread(mask, gaps), low, high, 0)
    padded = e.pad(e.spread(value, gaps), low, high, 0)
    return e.cell(("where", X, ("input", 1), ("input", 2)), inside, padded, fill, dtype=value.dtype)


def _dynamic_slice(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Translate a dynamic slice: known starts make a slice; others gather rows, one dimension after the other."""
    value, starts = operands[0], operands[1:]
    sizes = operation.get("slice_sizes")
    for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        whole = value.shape[axis]
        if size == whole:
            continue
        known = e.known(start)
        if known is not None:
            first = min(max(int(known), 0), whole - size)
            value = e.part(value, axis, range(first, first + size))
        else:
            value = rows_from(e, value, axis, start, size)
    return value


def rows_from(e: Emitter, value: Value, axis: int, start: Value, size: int) -> Value:
    """Gather `size` neighbors along `axis`, starting at a clamped `start` that is not known."""
    limit = value.shape[axis] - size
    clamped = ("max", ("min", ("cast", "int64", X), ("const", limit)), ("const", 0))
    if size == 1:
        index = e.cell(clamped, e.relabel(start, (), ("",), (1,)), dtype="int64")
    else:
        index = e.cell(("add", clamped, ("input", 1)), start, e.line((size,), 0, "int64"), dtype="int64")
    labels = plain_labels(len(value.shape))
    table = tuple("v" if k == axis else d for k, d in enumerate(labels))
    return e.compute(
        "gather",
        [value, index],
        [table, (labels[axis],)],
        labels,
        attributes={"axis": "v"},
        whole=frozenset("v"),
    )


def _dynamic_update_slice(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Value:
    """Translate a dynamic update: known starts concatenate parts; others select old or new elements by coordinate."""
    value, update, starts = operands[0], operands[1], operands[2:]
    moving = [k for k, (a, b) in enumerate(zip(value.shape, update.shape, strict=True)) if a != b]
    known = {k: e.known(starts[k]) for k in moving}
    if any(found is None for found in known.values()):
        return _masked_update(e, value, update, {k: starts[k] for k in moving})
    firsts = {
        k: min(max(int(f), 0), value.shape[k] - update.shape[k]) for k, f in known.items() if f is not None
    }
    return _replaced(e, value, update, firsts)


def _replaced(e: Emitter, value: Value, update: Value, firsts: dict[int, int]) -> Value:
    """Replace a box of the value by concatenation along one dimension, and inside likewise along the next."""
    if not firsts:
        return update
    (axis, first), *rest = firsts.items()
    end = first + update.shape[axis]
    inside = e.part(value, axis, range(first, end)) if rest else update
    parts = [
        *([e.part(value, axis, range(first))] if first else []),
        _replaced(e, inside, update, dict(rest)),
        *([e.part(value, axis, range(end, value.shape[axis]))] if end < value.shape[axis] else []),
    ]
    return e.concat(parts, axis)


def _masked_update(e: Emitter, value: Value, update: Value, starts: dict[int, Value]) -> Value:
    """Select the old or new element by its coordinate; where the update is longer than 1, gather rows of it."""
    labels = plain_labels(len(value.shape))
    inside: tuple[object, ...] = ("const", True)
    firsts: list[Value] = []
    for axis, start in starts.items():
        size = update.shape[axis]
        clamp = ("max", ("min", ("cast", "int64", X), ("const", value.shape[axis] - size)), ("const", 0))
        first = e.cell(clamp, start, dtype="int64")
        offset = ("sub", ("index", labels[axis]), ("input", 2 + len(firsts)))
        inside = ("and", inside, ("and", ("ge", offset, ("const", 0)), ("lt", offset, ("const", size))))
        if size > 1:
            row = ("min", ("max", ("sub", ("input", 1), X), ("const", 0)), ("const", size - 1))
            index = e.cell(row, first, e.line((value.shape[axis],), 0, "int64"), dtype="int64")
            table = tuple("v" if k == axis else d for k, d in enumerate(labels))
            update = e.compute(
                "gather",
                [update, index],
                [table, (labels[axis],)],
                labels,
                attributes={"axis": "v"},
                whole=frozenset("v"),
            )
        firsts.append(first)
    return e.cell(("where", inside, ("input", 1), X), value, update, *firsts, dtype=value.dtype)


MOVEMENT: tuple[HloTranslator, ...] = (
    HloTranslator(("stablehlo.constant", "chlo.constant"), _constant),
    HloTranslator(("stablehlo.get_dimension_size",), _size),
    HloTranslator(("stablehlo.iota",), _iota),
    HloTranslator(("stablehlo.broadcast_in_dim",), _broadcast),
    HloTranslator(("stablehlo.transpose",), _transpose),
    HloTranslator(("stablehlo.reshape",), _reshape),
    HloTranslator(("stablehlo.slice",), _slice),
    HloTranslator(("stablehlo.reverse",), _reverse),
    HloTranslator(("stablehlo.concatenate",), _concatenate),
    HloTranslator(("stablehlo.pad",), _pad),
    HloTranslator(("stablehlo.dynamic_slice",), _dynamic_slice),
    HloTranslator(("stablehlo.dynamic_update_slice",), _dynamic_update_slice),
)
