"""Sorting and top-k: positions in order, then the elements at them."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.emitter import Emitter
from tapestry.teg.importers.stablehlo.module import Operation
from tapestry.teg.importers.stablehlo.regions import sort_key
from tapestry.teg.importers.stablehlo.unrolling import HloTranslator, RegionTranslator, Runner
from tapestry.teg.importers.translate.translation import plain_labels


def arg_sort(e: Emitter, value: Value, axis: int, count: int, largest: bool) -> Value:
    """Compute the positions of the first `count` elements in order along `axis`."""
    labels = plain_labels(len(value.shape))
    target = tuple("order" if k == axis else d for k, d in enumerate(labels))
    attributes = {"axis": labels[axis], "count": count, "largest": largest, "stable": True}
    whole = frozenset((labels[axis], "order"))
    return e.compute("arg_sort", [value], [labels], target, "int64", attributes, whole, {"order": count})


def at_positions(e: Emitter, value: Value, positions: Value, axis: int) -> Value:
    """Gather the elements along `axis` that `positions` names, line by line."""
    labels = plain_labels(len(value.shape))
    table = tuple("v" if k == axis else d for k, d in enumerate(labels))
    places = tuple("order" if k == axis else d for k, d in enumerate(labels))
    return e.compute(
        "gather", [value, positions], [table, places], places, value.dtype, {"axis": "v"}, frozenset("v")
    )


def _sort(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    """Sort by less significant keys first: a stable sort keeps the order that they established."""
    e = runner.emitter
    axis = int(operation.get("dimension", -1)) % max(len(operands[0].shape), 1)
    found = sort_key(runner, operation.regions[0], [o.dtype for o in operands])
    if found is None:
        raise e.refuse("is supported where its comparator orders by one or two of the operands")
    keys, descending = found
    values = list(operands)
    for key in reversed(keys):
        # Equal elements keep their order, so the largest first are not the smallest first, reversed.
        order = arg_sort(e, values[key], axis, values[key].shape[axis], descending)
        values = [at_positions(e, v, order, axis) for v in values]
    return values


def _top_k(e: Emitter, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    value, (first, second) = operands[0], operation.types
    axis = len(value.shape) - 1
    order = arg_sort(e, value, axis, first.shape[axis], bool(operation.get("largest", True)))
    return [at_positions(e, value, order, axis), e.cast(order, second.dtype)]


ORDERING: tuple[HloTranslator | RegionTranslator, ...] = (
    RegionTranslator(("stablehlo.sort",), _sort),
    HloTranslator(("chlo.top_k",), _top_k),
)
