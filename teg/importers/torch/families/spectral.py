"""Complex numbers and Fourier transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from tapestry.teg.dtypes import COMPLEX_DTYPES, REAL_DTYPES
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, tree_of, where
from tapestry.teg.importers.translate.spectral import (
    from_pairs,
    mirrored,
    pairs,
    part_of,
    sized,
    transformed,
)


def _complex(t: Tracer, real: Value, imag: Value) -> Value:
    return t.elements(("complex", ("input", 0), ("input", 1)), [real, imag], t.dtype)


def _conj(t: Tracer, x: Value) -> Value:
    return t.elements(("conj", ("input", 0)), [x], x.dtype) if x.dtype in REAL_DTYPES else x


def _polar(t: Tracer, abs: Value, angle: Value) -> Value:
    def point(r: CellExpr, a: CellExpr) -> CellExpr:
        return call("complex", r * call("cos", a), r * call("sin", a))

    arguments = [CellExpr(("input", k)) for k in range(2)]
    return t.elements(tree_of(point(*arguments)), [abs, angle], t.dtype)


def _angle(t: Tracer, x: Value) -> Value:
    if x.dtype in REAL_DTYPES:
        parts = (CellExpr((name, ("input", 0))) for name in ("imag", "real"))
        return t.elements(tree_of(call("atan2", *parts)), [x], REAL_DTYPES[x.dtype])
    return t.cells(lambda a: where(a < 0, math.pi, where(call("is_nan", a), a, 0.0)), x, dtype=t.dtype)


def _scaled(t: Tracer, x: Value, count: int, normalization: int, inverse: bool) -> Value:
    """Scale by torch's codes: 0 none, 1 by the root of the count, 2 by the count; our inverse divides by it already."""
    factor = {0: 1.0, 1: 1 / math.sqrt(count), 2: 1 / count}[normalization] * (count if inverse else 1)
    if factor == 1:
        return x
    tree = ("mul", ("input", 0), ("const", factor))
    return t.elements(("cast", x.dtype, tree), [x], x.dtype)


def _c2c(t: Tracer, x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    axes = [t.axis(d, len(x.shape)) for d in dim]
    count = math.prod(x.shape[a] for a in axes)
    return _scaled(t, transformed(t, x, axes, not forward), count, normalization, not forward)


def _r2c(t: Tracer, x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    """Transform real numbers; the second half of the last dimension mirrors its first and is cut off if `onesided`."""
    axes = [t.axis(d, len(x.shape)) for d in dim]
    count = math.prod(x.shape[a] for a in axes)
    found = transformed(t, t.cast(x, t.dtype), axes[-1:], inverse=False)
    if onesided:
        found = t.part(found, axes[-1], range(x.shape[axes[-1]] // 2 + 1))
    return _scaled(t, transformed(t, found, axes[:-1], inverse=False), count, normalization, inverse=False)


def _c2r(t: Tracer, x: Value, dim: Sequence[int], normalization: int, last_dim_size: int) -> Value:
    """Transform to real numbers; the mirrored half of the last dimension is restored first."""
    axes = [t.axis(d, len(x.shape)) for d in dim]
    last, half = axes[-1], last_dim_size // 2 + 1
    found = t.part(transformed(t, x, axes[:-1], inverse=True), last, range(half))
    count = math.prod(last_dim_size if a == last else x.shape[a] for a in axes)
    found = mirrored(t, found, last, last_dim_size)
    whole = _scaled(t, transformed(t, found, axes[-1:], inverse=True), count, normalization, inverse=True)
    return t.elements(("real", ("input", 0)), [whole], t.dtype)


# torch's codes of a scaling by its names; which direction is scaled decides what they mean.
FORWARD = {None: 0, "backward": 0, "ortho": 1, "forward": 2}
BACKWARD = {None: 2, "backward": 2, "ortho": 1, "forward": 0}


def _along(t: Tracer, x: Value, s: Any, dim: Any, last: int | None) -> tuple[list[int], list[int | None]]:
    """Return the dimensions that are transformed (`last` many by default) and the sizes requested."""
    rank = len(x.shape)
    if dim is None:
        count = len(s) if isinstance(s, (tuple, list)) else last or rank
        dim = range(rank - count, rank)
    axes = [t.axis(d, rank) for d in ([dim] if isinstance(dim, int) else dim)]
    sizes = list(s) if isinstance(s, (tuple, list)) else [s] * len(axes)
    return axes, sizes


def _fft(
    inverse: bool,
    many: int | None,
    t: Tracer,
    x: Value,
    s: Any = None,
    dim: Any = None,
    norm: Any = None,
    **given: Any,
) -> Value:
    axes, sizes = _along(t, x, given.get("n", s), dim, many)
    value = sized(t, t.cast(x, t.dtype), sizes, axes)
    return _c2c(t, value, axes, (BACKWARD if inverse else FORWARD)[norm], not inverse)


def _rfft(
    many: int | None, t: Tracer, x: Value, s: Any = None, dim: Any = None, norm: Any = None, **given: Any
) -> Value:
    axes, sizes = _along(t, x, given.get("n", s), dim, many)
    return _r2c(t, sized(t, x, sizes, axes), axes, FORWARD[norm], onesided=True)


def _irfft(
    many: int | None, t: Tracer, x: Value, s: Any = None, dim: Any = None, norm: Any = None, **given: Any
) -> Value:
    axes, sizes = _along(t, x, given.get("n", s), dim, many)
    size = t.shape[axes[-1]]
    halves = [*sizes[:-1], size // 2 + 1]
    return _c2r(
        t, sized(t, t.cast(x, COMPLEX_DTYPES.get(x.dtype, x.dtype)), halves, axes), axes, BACKWARD[norm], size
    )


SPECTRAL: tuple[TorchOperator, ...] = (
    TorchOperator(aten("complex"), _complex),
    TorchOperator(aten("real"), partial(part_of, "real")),
    TorchOperator(aten("imag"), partial(part_of, "imag")),
    TorchOperator(aten("_conj", "conj", "conj_physical", "_conj_physical", "_conj_copy"), _conj),
    TorchOperator(aten("view_as_real", "view_as_real_copy"), pairs),
    TorchOperator(aten("view_as_complex", "view_as_complex_copy"), from_pairs),
    TorchOperator(aten("polar"), _polar),
    TorchOperator(aten("angle"), _angle),
    TorchOperator(aten("_fft_c2c"), _c2c),
    TorchOperator(aten("_fft_r2c"), _r2c),
    TorchOperator(aten("_fft_c2r"), _c2r),
    TorchOperator(aten("fft_fft"), partial(_fft, False, 1)),
    TorchOperator(aten("fft_ifft"), partial(_fft, True, 1)),
    TorchOperator(aten("fft_rfft"), partial(_rfft, 1)),
    TorchOperator(aten("fft_irfft"), partial(_irfft, 1)),
    TorchOperator(aten("fft_fft2"), partial(_fft, False, 2)),
    TorchOperator(aten("fft_ifft2"), partial(_fft, True, 2)),
    TorchOperator(aten("fft_rfft2"), partial(_rfft, 2)),
    TorchOperator(aten("fft_irfft2"), partial(_irfft, 2)),
    TorchOperator(aten("fft_fftn"), partial(_fft, False, None)),
    TorchOperator(aten("fft_ifftn"), partial(_fft, True, None)),
    TorchOperator(aten("fft_rfftn"), partial(_rfft, None)),
    TorchOperator(aten("fft_irfftn"), partial(_irfft, None)),
)
