"""Analysis of the small functions inside reductions, scatters and sorts.

A body that is one operation is identified by it. A body that only compares, selects and combines truth values depends
on nothing but the order of its arguments, of which there are finitely many: trying them all is a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import product

import numpy as np

from tapestry.teg.dtypes import is_float, numpy_dtype
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.stablehlo.module import Operation, Region
from tapestry.teg.importers.stablehlo.unrolling import Runner

# Operation -> monoid, and the cell function that combines two elements.
MONOIDS = {
    "stablehlo.add": "sum",
    "stablehlo.multiply": "prod",
    "stablehlo.maximum": "max",
    "stablehlo.minimum": "min",
    "stablehlo.and": "min",
    "stablehlo.or": "max",
}
COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
TRANSPARENT = ("stablehlo.convert", "stablehlo.optimization_barrier", "stablehlo.reduce_precision")
ORDER_ONLY = frozenset(
    f"stablehlo.{name}"
    for name in ("compare", "select", "and", "or", "xor", "not", "constant", "convert", "return")
)


def monoid_of(region: Region, bools: bool) -> str | None:
    """Return the monoid that a body of two arguments combines by; None if it is no single operation.

    Sums of bools are "or", their products "and".
    """
    if len(region.results) != 1 or len(region.arguments) != 2:
        return None
    producers = {o.results[0]: o for o in region.operations if len(o.results) == 1}
    last = _behind_conversions(region.results[0], producers)
    if not isinstance(last, Operation) or last.name not in MONOIDS:
        return None
    if last.name in ("stablehlo.and", "stablehlo.or") and not bools:
        return None
    reached = [_behind_conversions(n, producers) for n in last.operands]
    if reached not in ([*region.arguments], [*region.arguments][::-1]):
        return None
    monoid = MONOIDS[last.name]
    return {"sum": "max", "prod": "min"}.get(monoid, monoid) if bools else monoid


def replaces(region: Region) -> bool:
    """Return whether a scatter's body returns the update."""
    producers = {o.results[0]: o for o in region.operations if len(o.results) == 1}
    return (
        len(region.results) == 1 and _behind_conversions(region.results[0], producers) == region.arguments[-1]
    )


def _behind_conversions(number: int, producers: dict[int, Operation]) -> int | Operation:
    while number in producers and producers[number].name in TRANSPARENT:
        number = producers[number].operands[0]
    return producers.get(number, number)


def depends_on_order_only(region: Region) -> bool:
    """Return whether a body does nothing but compare and select."""
    return all(o.name in ORDER_ONLY for o in region.operations)


def samples(dtype: str) -> np.ndarray:
    """Return elements in every order that two of them can have, with NaN among floats."""
    if is_float(dtype):
        largest = 448.0 if dtype == "float8_e4m3fn" else np.inf
        return np.array([-largest, -1.0, -0.0, 0.0, 1.0, largest, np.nan]).astype(numpy_dtype(dtype))
    if dtype == "bool":
        return np.array([False, True])
    limits = np.iinfo(numpy_dtype(dtype))
    return np.array([limits.min, 0, 1, 2, limits.max], numpy_dtype(dtype))


def tried(runner: Runner, region: Region, arguments: Sequence[np.ndarray]) -> list[np.ndarray] | None:
    """Evaluate a body on arrays of samples; None if the results depend on something else."""
    given = [runner.emitter.know(a, a.shape) for a in arguments]
    results = [runner.emitter.known(v) for v in runner.elementwise(region, given)]
    return None if any(r is None for r in results) else [r for r in results if r is not None]


def grid(columns: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Build every combination of one element from each column, as one array per column."""
    listed = list(columns)
    places = np.array(list(product(*(range(len(c)) for c in listed))))
    return [c[places[:, k]] for k, c in enumerate(listed)]


def arg_kind(runner: Runner, region: Region, values: Sequence[Value]) -> str | None:
    """Return "max" or "min" if a body over (value, position) pairs keeps the first extreme value, else None.

    It must keep the value and its first position.
    """
    if len(values) != 2 or not depends_on_order_only(region) or values[1].dtype[:3] not in ("int", "uin"):
        return None
    value, place = samples(values[0].dtype), np.arange(3).astype(numpy_dtype(values[1].dtype))
    a, i, b, j = grid((value, place, value, place))
    found = tried(runner, region, (a, i, b, j))
    if found is None:
        return None
    # Of two that are no numbers the first argument may stay: it comes from before the second.
    differ = (i != j) & ~(_no_number(a) & _no_number(b) & (i > j))
    for kind, first in (("max", _precedes(np.greater)), ("min", _precedes(np.less))):
        left = first(a, i, b, j)
        wanted = np.where(left, a, b), np.where(left, i, j)
        same = [
            np.array_equal(f[differ], w[differ], equal_nan=f.dtype.kind == "f")
            for f, w in zip(found, wanted, strict=True)
        ]
        if all(same):
            return kind
    return None


def _no_number(array: np.ndarray) -> np.ndarray:
    return np.isnan(array) if is_float(array.dtype.name) else np.zeros(array.shape, bool)


def _precedes(beyond: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Build the test whether the first pair wins: NaN beats all, then the extreme value, then the lower position."""

    def wins(a: np.ndarray, i: np.ndarray, b: np.ndarray, j: np.ndarray) -> np.ndarray:
        lost_a, lost_b = _no_number(a), _no_number(b)
        tie = (a == b) | (lost_a & lost_b)
        first: np.ndarray = (lost_a & ~lost_b) | (beyond(a, b) & ~lost_b) | (tie & (i < j))
        return first

    return wins


def sort_key(runner: Runner, region: Region, dtypes: Sequence[str]) -> tuple[list[int], bool] | None:
    """Find the operands that a comparator reads, most significant first, and whether it sorts the largest first.

    None if it is no such order. NaNs may be on either side of all others.
    """
    if not depends_on_order_only(region) or len(region.arguments) != 2 * len(dtypes):
        return None
    used = _read_arguments(region)
    keys = sorted({k // 2 for k in used})
    if not 1 <= len(keys) <= 2:
        return None
    for order in (keys, keys[::-1]):
        for descending in (False, True):
            if _sorts_by(runner, region, dtypes, order, descending):
                return order, descending
    return None


def _read_arguments(region: Region) -> set[int]:
    read = {n for o in region.operations for n in o.operands} | set(region.results)
    return {k for k, n in enumerate(region.arguments) if n in read}


def _sorts_by(
    runner: Runner, region: Region, dtypes: Sequence[str], keys: Sequence[int], descending: bool
) -> bool:
    columns = [_ordered_samples(dtypes[k]) for k in keys for _ in range(2)]
    pairs = grid(columns)
    zero = [np.zeros(len(pairs[0]), numpy_dtype(d)) for d in dtypes for _ in range(2)]
    for at, k in enumerate(keys):
        zero[2 * k], zero[2 * k + 1] = pairs[2 * at], pairs[2 * at + 1]
    found = tried(runner, region, zero)
    before, tie = np.zeros(len(pairs[0]), bool), np.ones(len(pairs[0]), bool)
    for at in range(len(keys)):
        a, b = pairs[2 * at], pairs[2 * at + 1]
        before |= tie & ((a > b) if descending else (a < b))
        tie &= a == b
    return found is not None and bool(np.array_equal(found[0], before))


def _ordered_samples(dtype: str) -> np.ndarray:
    """Return samples that compare as they sort: one zero, and no NaN."""
    found = samples(dtype)
    return np.unique(found[~_no_number(found)] + numpy_dtype(dtype).type(0)) if is_float(dtype) else found
