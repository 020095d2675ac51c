"""Reductions: by a monoid, of an extreme value with its position, or by any associative body."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.teg.importers.program import Value, check_written
from tapestry.teg.importers.stablehlo.emitter import Emitter, X, Y
from tapestry.teg.importers.stablehlo.module import Operation, Region
from tapestry.teg.importers.stablehlo.regions import COMBINE, arg_kind, monoid_of
from tapestry.teg.importers.stablehlo.unrolling import RegionTranslator, Runner
from tapestry.teg.importers.translate.translation import plain_labels
from tapestry.teg.operators.monoids import identity


def _reduce(runner: Runner, operation: Operation, operands: Sequence[Value]) -> Sequence[Value]:
    e, count = runner.emitter, len(operands) // 2
    values, firsts = operands[:count], operands[count:]
    axes, body = list(operation.get("dimensions")), operation.regions[0]
    monoid = monoid_of(body, values[0].dtype == "bool")
    if count == 1 and monoid is not None:
        return [with_first(e, e.reduce(values[0], axes, monoid), firsts[0], monoid)]
    if count == 2 and len(axes) == 1:
        found = _extreme(runner, body, values, firsts, axes[0])
        if found is not None:
            return found
    results = list(values)
    for axis in sorted(axes, reverse=True):
        results = _tree(runner, body, results, axis)
    return runner.elementwise(body, [*_spread(e, firsts, results), *results])


def _spread(e: Emitter, firsts: Sequence[Value], like: Sequence[Value]) -> list[Value]:
    return [e.relabel(f, (), ("",) * len(v.shape), v.shape) for f, v in zip(firsts, like, strict=True)]


def combine(e: Emitter, a: Value, b: Value, monoid: str) -> Value:
    """Combine two partial results."""
    logical = {"max": "or", "min": "and"}
    function = logical[monoid] if a.dtype == "bool" else COMBINE[monoid]
    return e.cell((function, X, Y), a, b)


def with_first(e: Emitter, value: Value, first: Value, monoid: str) -> Value:
    """Combine the initial value into the result, unless it changes nothing."""
    known = e.known(first)
    if known is not None and known.reshape(-1)[0] == np.asarray(identity(monoid, first.dtype)).astype(
        known.dtype
    ):
        return value
    return combine(e, value, first, monoid)


def _extreme(
    runner: Runner, body: Region, values: Sequence[Value], firsts: Sequence[Value], axis: int
) -> list[Value] | None:
    """Compute largest or smallest elements and their positions; the positions must be the coordinates.

    None if they are not, or if the body is no such reduction.
    """
    e = runner.emitter
    places = e.translation.literal(values[1].name)
    check_written(values[1].shape[axis])
    line = np.arange(values[1].shape[axis]).reshape(
        [-1 if k == axis else 1 for k in range(len(values[1].shape))]
    )
    if places is None or not np.array_equal(places.array, line):
        return None
    kind = arg_kind(runner, body, values)
    first = e.known(firsts[0])
    if (
        kind is None
        or first is None
        or first.reshape(-1)[0] != np.asarray(identity(kind, values[0].dtype)).astype(first.dtype)
    ):
        return None
    labels = plain_labels(len(values[0].shape))
    target = tuple(d for k, d in enumerate(labels) if k != axis)
    attributes = {"axis": labels[axis], "kind": kind}
    place = e.compute(
        "arg_reduce", values[:1], [labels], target, "int64", attributes, frozenset((labels[axis],))
    )
    return [e.reduce(values[0], [axis], kind), e.cast(place, values[1].dtype)]


def _tree(runner: Runner, body: Region, values: Sequence[Value], axis: int) -> list[Value]:
    """Combine neighbors in pairs until one is left; an odd one out goes on to the next round."""
    e, size = runner.emitter, values[0].shape[axis]
    results = list(values)
    while size > 1:
        half = size // 2
        left = [e.part(v, axis, range(0, 2 * half, 2)) for v in results]
        right = [e.part(v, axis, range(1, 2 * half, 2)) for v in results]
        paired = runner.elementwise(body, [*left, *right])
        odd = [e.part(v, axis, range(size - 1, size)) for v in results] if size % 2 else []
        results = [e.concat([p, o], axis) for p, o in zip(paired, odd, strict=True)] if odd else paired
        size = half + size % 2
    shape = [s for k, s in enumerate(results[0].shape) if k != axis]
    labels = plain_labels(len(shape) + 1)
    target = tuple(d for k, d in enumerate(labels) if k != axis)
    return [e.relabel(v, labels, target, shape) for v in results]


REDUCTIONS: tuple[RegionTranslator, ...] = (RegionTranslator(("stablehlo.reduce",), _reduce),)
