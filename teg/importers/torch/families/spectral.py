"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from teg.importers.program import Value
from teg.importers.torch.expressions import Expr, call, tree_of, where
from teg.importers.torch.operator import TorchOperator, aten
from teg.importers.torch.tracer import Tracer

WIDE = {"float32": "complex64", "float64": "complex128"}
REAL = {"complex64": "float32", "complex128": "float64"}


def _complex(t: Tracer, real: Value, imag: Value) -> Value:
    return t.elements(("complex", ("input", 0), ("input", 1)), [real, imag], t.dtype)


def _part(name: str, t: Tracer, x: Value) -> Value:
    """The real or the imaginary part; a real number is its own real part."""
    if x.dtype not in REAL:
        return x if name == "real" else t.full(x.shape, 0, x.dtype)
    return t.elements((name, ("input", 0)), [x], REAL[x.dtype])


def _conj(t: Tracer, x: Value) -> Value:
    return t.elements(("conj", ("input", 0)), [x], x.dtype) if x.dtype in REAL else x


def _view_as_real(t: Tracer, x: Value) -> Value:
    rank = len(x.shape)
    return t.concat([t.unsqueeze(_part(name, t, x), rank) for name in ("real", "imag")], rank)


def _view_as_complex(t: Tracer, x: Value) -> Value:
    axis = len(x.shape) - 1
    parts = [t.squeeze(t.part(x, axis, range(k, k + 1)), axis) for k in range(2)]
    return t.elements(("complex", ("input", 0), ("input", 1)), parts, WIDE[x.dtype])


def _polar(t: Tracer, abs: Value, angle: Value) -> Value:
    def point(r: Expr, a: Expr) -> Expr:
        return call("complex", r * call("cos", a), r * call("sin", a))

    arguments = [Expr(("input", k)) for k in range(2)]
    return t.elements(tree_of(point(*arguments)), [abs, angle], t.dtype)


def _angle(t: Tracer, x: Value) -> Value:
    if x.dtype in REAL:
        parts = (Expr((name, ("input", 0))) for name in ("imag", "real"))
        return t.elements(tree_of(call("atan2", *parts)), [x], REAL[x.dtype])
    return t.cells(lambda a: where(a < 0, math.pi, where(call("is_nan", a), a, 0.0)), x, dtype=t.dtype)


def _transformed(t: Tracer, x: Value, axes: Sequence[int], inverse: bool) -> Value:
    for axis in axes:
        x = t.along("fft", x, axis, x.dtype, {"inverse": inverse})
    return x


def _scaled(t: Tracer, x: Value, count: int, normalization: int, inverse: bool) -> Value:
    """torch's codes: 0 none, 1 by the root of the count, 2 by the count; our inverse divides by it already."""
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] * (count if inverse else 1)
    if factor == 1:
        return x
    tree = ("mul", ("input", 0), ("const", factor))
    return t.elements(("cast", x.dtype, tree), [x], x.dtype)


def _c2c(t: Tracer, x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    axes = [t.axis(d, len(x.shape)) for d in dim]
    count = math.prod(x.shape[a] for a in axes)
    return _scaled(t, _transformed(t, x, axes, not forward), count, normalization, not forward)


def _r2c(t: Tracer, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """Of real numbers: the last dimension's second half mirrors its first."""
    axes = [t.axis(d, len(x.shape)) for d in dim]
    count = math.prod(x.shape[a] for a in axes)
    found = _transformed(t, t.cast(x, t.dtype), axes[-1:], inverse=False)
    if onesided:
        found = t.part(found, axes[-1], range(x.shape[axes[-1]] // 2 + 1))
    return _scaled(t, _transformed(t, found, axes[:-1], inverse=False), count, normalization, inverse=False)


def _c2r(t: Tracer, x: Value, dim: Sequence[int], normalization: int, last_dim_size: int) -> Value:
    """To real numbers: the mirrored half of the last dimension is put back first."""
    axes = [t.axis(d, len(x.shape)) for d in dim]
    last, half = axes[-1], last_dim_size // 2 + 1
    found = t.part(_transformed(t, x, axes[:-1], inverse=True), last, range(half))
    count = math.prod(last_dim_size if a == last else x.shape[a] for a in axes)
    rest = last_dim_size - half
    if rest:
        mirrored = t.part(found, last, range(rest, 0, -1))
        found = t.concat([found, t.elements(("conj", ("input", 0)), [mirrored], x.dtype)], last)
    whole = _scaled(t, _transformed(t, found, axes[-1:], inverse=True), count, normalization, inverse=True)
    return t.elements(("real", ("input", 0)), [whole], t.dtype)


SPECTRAL: tuple[TorchOperator, ...] = (
    TorchOperator(aten("complex"), _complex),
    TorchOperator(aten("real"), partial(_part, "real")),
    TorchOperator(aten("imag"), partial(_part, "imag")),
    TorchOperator(aten("_conj", "conj", "conj_physical", "_conj_physical", "_conj_copy"), _conj),
    TorchOperator(aten("view_as_real", "view_as_real_copy"), _view_as_real),
    TorchOperator(aten("view_as_complex", "view_as_complex_copy"), _view_as_complex),
    TorchOperator(aten("polar"), _polar),
    TorchOperator(aten("angle"), _angle),
    TorchOperator(aten("_fft_c2c"), _c2c),
    TorchOperator(aten("_fft_r2c"), _r2c),
    TorchOperator(aten("_fft_c2r"), _c2r),
)
