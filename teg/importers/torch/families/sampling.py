"""Sampling pictures at points: gathers of the neighbours, weighted by how far the point is from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from teg.importers.program import Value
from teg.importers.torch.families.resampling import CUBIC
from teg.importers.torch.operator import TorchOperator, aten
from teg.importers.torch.tracer import Tracer
from teg.importers.translate.arithmetic import Expr, call, where

ZEROS, BORDER, REFLECTION = 0, 1, 2
BILINEAR, NEAREST = 0, 1


class Rules(NamedTuple):
    """How points become places: what lies beyond the border, and whether -1 and 1 are centres of elements."""

    padding: int
    corners: bool


def _place(a: Expr, size: int, rules: Rules) -> Expr:
    """The point `a` in [-1, 1] among the elements of a dimension."""
    return (a + 1) * ((size - 1) / 2) if rules.corners else ((a + 1) * size - 1) / 2


def _bounded(a: Expr, size: int, rules: Rules) -> Expr:
    """Places beyond the border on the border, or mirrored at it."""
    if rules.padding == REFLECTION:
        low, high = (0, 2 * (size - 1)) if rules.corners else (-1, 2 * size - 1)
        a = _mirrored(a, low / 2, high / 2)
    return a if rules.padding == ZEROS else call("min", call("max", a, 0.0), float(size - 1))


def _mirrored(a: Expr, low: float, high: float) -> Expr:
    """Reflected between `low` and `high` until it lies there."""
    span = high - low
    if span <= 0:
        return 0.0 * a
    away = call("abs", a - low)
    rest = call("fmod", away, span)
    flips = call("mod", call("floor", away / span), 2.0)
    return where(call("eq", flips, 0.0), rest + low, high - rest)


def _grid_sampler_2d(
    t: Tracer, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    """Neighbours of each point; those outside count nothing where padding is zeros."""
    rules = Rules(padding_mode, align_corners)
    sizes = (input.shape[3], input.shape[2])
    lines = [t.squeeze(t.part(grid, 3, range(k, k + 1)), 3) for k in range(2)]
    cubic = interpolation_mode not in (BILINEAR, NEAREST)
    places = [
        t.cells(
            lambda a, n=size: _place(a, n, rules) if cubic else _bounded(_place(a, n, rules), n, rules),
            line,
            dtype=grid.dtype,
        )
        for line, size in zip(lines, sizes, strict=True)
    ]
    if interpolation_mode == NEAREST:
        nearest = [t.cells(lambda a: call("round", a), p, dtype=grid.dtype) for p in places]
        return _element(t, input, nearest, rules)
    taps, weigh = (range(-1, 3), _cubic_weight) if cubic else (range(2), _linear_weight)
    floors = [t.cells(lambda a: call("floor", a), p, dtype=grid.dtype) for p in places]
    total: Value | None = None
    for j in taps:
        for i in taps:
            at = [
                t.cells(lambda f, d=d: f + d, f, dtype=grid.dtype)
                for f, d in zip(floors, (i, j), strict=True)
            ]
            found = _element(t, input, at, rules)
            weight = t.unsqueeze(_weight(t, places, floors, (i, j), weigh), 1)
            term = t.cells(lambda a, w: a * w, found, weight, dtype=input.dtype)
            total = term if total is None else t.cells(lambda a, b: a + b, total, term, dtype=input.dtype)
    assert total is not None
    return total


def _linear_weight(fraction: Expr, tap: int) -> Expr:
    return fraction if tap else 1 - fraction


def _cubic_weight(fraction: Expr, tap: int) -> Expr:
    """Keys' kernel at the distance of the tap."""
    x = fraction + 1 if tap == -1 else fraction if tap == 0 else 1 - fraction if tap == 1 else 2 - fraction
    if tap in (0, 1):
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def _weight(
    t: Tracer,
    places: list[Value],
    floors: list[Value],
    taps: tuple[int, int],
    weigh: Callable[[Expr, int], Expr],
) -> Value:
    def product(x: Expr, fx: Expr, y: Expr, fy: Expr) -> Expr:
        return weigh(x - fx, taps[0]) * weigh(y - fy, taps[1])

    return t.cells(product, places[0], floors[0], places[1], floors[1], dtype=places[0].dtype)


def _element(t: Tracer, input: Value, places: list[Value], rules: Rules) -> Value:
    """The elements at whole places `(x, y)` of each picture."""
    n, c, height, width = input.shape

    def inside(x: Expr, y: Expr) -> Expr:
        return (x >= 0) & (x <= width - 1) & (y >= 0) & (y <= height - 1)

    def address(x: Expr, y: Expr) -> Expr:
        across, down = (_bounded(v, s, rules) for v, s in ((x, width), (y, height)))
        across, down = (
            call("min", call("max", v, 0.0), s - 1.0) for v, s in ((across, width), (down, height))
        )
        return call("round", down) * width + call("round", across)

    flat = t.cells(address, *places, dtype="int64", within=places[0].dtype)
    table = t.reshape(input, (n, c, height * width))
    found = t.gather(table, flat, 2, [0])
    if rules.padding != ZEROS:
        return found
    kept = t.unsqueeze(t.cells(inside, *places, dtype="bool", within=places[0].dtype), 1)
    zero = ("cast", input.dtype, ("const", 0))
    return t.elements(("where", ("input", 0), ("input", 1), zero), [kept, found], input.dtype)


def _grid_sampler(
    t: Tracer, input: Value, grid: Value, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Value:
    if len(input.shape) != 4:
        raise t.refuse("is supported for pictures of two dimensions only")
    return _grid_sampler_2d(t, input, grid, interpolation_mode, padding_mode, align_corners)


SAMPLING: tuple[TorchOperator, ...] = (TorchOperator(aten("grid_sampler_2d", "grid_sampler"), _grid_sampler),)
