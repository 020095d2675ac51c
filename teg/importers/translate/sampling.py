"""Sampling of images at points: gathers of the neighbors, weighted by their distance from the point."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

from tapestry.teg.dtypes import is_float
from tapestry.teg.importers.onnx_reader import OnnxNode
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, where
from tapestry.teg.importers.translate.builder import Builder
from tapestry.teg.importers.translate.composing import composed, operand
from tapestry.teg.importers.translate.translation import OnnxTranslator

# Keys' parameter of the cubic kernel.
CUBIC = -0.75

# Names of the interpolations before version 20 and since.
MODES = {"bilinear": "linear", "bicubic": "cubic", "linear": "linear", "cubic": "cubic", "nearest": "nearest"}


class Rules(NamedTuple):
    """The rules that map points to positions and elements.

    `padding` says what is read beyond the border (zeros, border, reflection), `corners` whether -1 and 1 are centers of
    elements, and `cubic_bounded` whether far positions are brought back before cubic neighbors are looked up.
    """

    padding: str
    corners: bool
    cubic_bounded: bool


def _place(a: CellExpr, size: int, rules: Rules) -> CellExpr:
    """Convert the point `a` in [-1, 1] to a position among the elements of a dimension."""
    return (a + 1) * ((size - 1) / 2) if rules.corners else ((a + 1) * size - 1) / 2


def _borders(size: int, rules: Rules) -> tuple[float, float]:
    return (0.0, size - 1.0) if rules.corners else (-0.5, size - 0.5)


def _bounded(a: CellExpr, size: int, rules: Rules) -> CellExpr:
    """Move positions beyond the border to the border, or mirror them at it, unless the padding is zeros."""
    if rules.padding == "reflection":
        a = _mirrored(a, *_borders(size, rules))
    return a if rules.padding == "zeros" else _clipped(a, size)


def _clipped(a: CellExpr, size: int) -> CellExpr:
    return call("min", call("max", a, 0.0), float(size - 1))


def _mirrored(a: CellExpr, low: float, high: float) -> CellExpr:
    """Reflect `a` between `low` and `high` until it is in that range."""
    span = high - low
    if span <= 0:
        return 0.0 * a
    away = call("abs", a - low)
    rest = call("fmod", away, span)
    flips = call("mod", call("floor", away / span), 2.0)
    return where(call("eq", flips, 0.0), rest + low, high - rest)


def _cubic_place(a: CellExpr, size: int, rules: Rules) -> CellExpr:
    """Bound far positions first, if the rules say so; cubic neighbors are bounded one by one."""
    if not rules.cubic_bounded or rules.padding == "zeros":
        return a
    low, high = _borders(size, rules)
    near = _mirrored(a, low, high) if rules.padding == "reflection" else _clipped(a, size)
    return where((a < low) | (a > high), near, a)


def sample(b: Builder, x: Value, grid: Value, mode: str, rules: Rules) -> Value:
    """Sample images `x` `(n, c, *spatial)` at points `grid` `(n, *out, rank)`, the last spatial dimension first.

    `mode` is nearest, linear or cubic. Neighbors outside count nothing where the padding is zeros.
    """
    sizes, last = x.shape[2:], len(grid.shape) - 1
    bound = _cubic_place if mode == "cubic" else _bounded
    places = []
    for k, size in enumerate(sizes):
        at = len(sizes) - 1 - k
        line = b.squeeze(b.part(grid, last, range(at, at + 1)), last)
        places.append(b.cells(lambda a, n=size: bound(_place(a, n, rules), n, rules), line, dtype=grid.dtype))
    return interpolated(b, x, places, mode, rules)


def interpolated(b: Builder, x: Value, places: Sequence[Value], mode: str, rules: Rules) -> Value:
    """Interpolate the images at element positions `places`, one value `(n, *out)` per spatial dimension."""
    dtype = places[0].dtype
    if mode == "nearest":
        nearest = [b.cells(lambda a: call("round", a), p, dtype=dtype) for p in places]
        return _element(b, x, nearest, rules)
    taps, weigh = (range(-1, 3), _cubic_weight) if mode == "cubic" else (range(2), _linear_weight)
    floors = [b.cells(lambda a: call("floor", a), p, dtype=dtype) for p in places]
    total: Value | None = None
    for tap in product(taps, repeat=len(places)):
        shifted = zip(floors, tap, strict=True)
        found = _element(b, x, [b.cells(lambda f, d=d: f + d, f, dtype=dtype) for f, d in shifted], rules)
        weight = b.unsqueeze(_weight(b, places, floors, tap, weigh), 1)
        term = b.cells(lambda a, w: a * w, found, weight, dtype=x.dtype)
        total = term if total is None else b.cells(lambda a, c: a + c, total, term, dtype=x.dtype)
    assert total is not None
    return total


def _linear_weight(fraction: CellExpr, tap: int) -> CellExpr:
    return fraction if tap else 1 - fraction


def _cubic_weight(fraction: CellExpr, tap: int) -> CellExpr:
    """Evaluate Keys' kernel at the distance of the tap."""
    x = fraction + 1 if tap == -1 else fraction if tap == 0 else 1 - fraction if tap == 1 else 2 - fraction
    if tap in (0, 1):
        return ((CUBIC + 2) * x - (CUBIC + 3)) * x * x + 1
    return ((CUBIC * x - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC


def _weight(
    b: Builder,
    places: Sequence[Value],
    floors: Sequence[Value],
    taps: Sequence[int],
    weigh: Callable[[CellExpr, int], CellExpr],
) -> Value:
    def weights(*given: CellExpr) -> CellExpr:
        result: CellExpr | None = None
        for place, floor, tap in zip(given[::2], given[1::2], taps, strict=True):
            factor = weigh(place - floor, tap)
            result = factor if result is None else result * factor
        assert result is not None
        return result

    operands = [v for pair in zip(places, floors, strict=True) for v in pair]
    return b.cells(weights, *operands, dtype=places[0].dtype)


def _element(b: Builder, x: Value, places: Sequence[Value], rules: Rules) -> Value:
    """Read the elements of each image at whole positions, one position per spatial dimension."""
    n, c, *sizes = x.shape

    def inside(*given: CellExpr) -> CellExpr:
        result = (given[0] >= 0) & (given[0] <= sizes[0] - 1)
        for place, size in zip(given[1:], sizes[1:], strict=True):
            result = result & (place >= 0) & (place <= size - 1)
        return result

    def address(*given: CellExpr) -> CellExpr:
        lines = [call("round", _clipped(_bounded(p, s, rules), s)) for p, s in zip(given, sizes, strict=True)]
        result = lines[0]
        for line, size in zip(lines[1:], sizes[1:], strict=True):
            result = result * size + line
        return result

    flat = b.cells(address, *places, dtype="int64", within=places[0].dtype)
    found = b.gather(b.reshape(x, (n, c, math.prod(sizes))), flat, 2, [0])
    if rules.padding != "zeros":
        return found
    kept = b.unsqueeze(b.cells(inside, *places, dtype="bool", within=places[0].dtype), 1)
    zero = ("cast", x.dtype, ("const", 0))
    return b.elements(("where", ("input", 0), ("input", 1), zero), [kept, found], x.dtype)


def _grid_sample(b: Builder, node: OnnxNode) -> Value:
    x, grid = operand(b, node, 0), operand(b, node, 1)
    mode, padding = MODES.get(node.get("mode", "linear")), node.get("padding_mode", "zeros")
    if mode is None or padding not in ("zeros", "border", "reflection"):
        raise b.refuse(f"knows no interpolation {node.get('mode')!r} with padding {padding!r}")
    if mode != "nearest" and not is_float(x.dtype):
        raise b.refuse(f"interpolates {x.dtype}, which is supported for floating-point types only")
    return sample(b, x, grid, mode, Rules(padding, bool(node.get("align_corners", 0)), cubic_bounded=True))


SAMPLING: tuple[OnnxTranslator, ...] = (OnnxTranslator(("GridSample",), composed(_grid_sample)),)
