"""Resizing of images: one matrix of weights per dimension, or slices where neighbors are copied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.indexing import take
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.resampling import cubic_kernel, linear_kernel, multiplied

# Keys' parameter of the cubic kernel, without and with antialiasing, as torch has them.
CUBIC, CUBIC_ANTIALIASED = -0.75, -0.5


def _ratio(size: int, out: int, factor: float | None, corners: bool = False) -> float:
    """Return the number of input elements per output element."""
    if corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else size / out


def _places(size: int, out: int, factor: float | None, corners: bool) -> np.ndarray:
    """Compute the position of each output element among the input's."""
    ratio, line = _ratio(size, out, factor, corners), np.arange(out)
    return line * ratio if corners else (line + 0.5) * ratio - 0.5


def _weights(size: int, out: int, factor: float | None, corners: bool, cubic: bool) -> np.ndarray:
    """Build the matrix `(out, size)` of interpolation weights; beyond the border the border element is repeated."""
    places = _places(size, out, factor, corners)
    if not cubic and not corners:
        places = np.maximum(places, 0)
    first = np.floor(places).astype(int)
    matrix = np.zeros((out, size))
    kernel, taps = (cubic_kernel(CUBIC), range(-1, 3)) if cubic else (linear_kernel, range(2))
    for tap in taps:
        at = np.clip(first + tap, 0, size - 1)
        np.add.at(matrix, (np.arange(out), at), kernel(places - first - tap))
    return matrix


def _smoothed(size: int, out: int, factor: float | None, corners: bool, cubic: bool) -> np.ndarray:
    """Build the matrix of an antialiased resize: the kernel is as wide as an output element."""
    ratio = _ratio(size, out, factor, corners)
    wide = max(ratio, 1.0)
    reach = (2 if cubic else 1) * wide
    kernel = cubic_kernel(CUBIC_ANTIALIASED) if cubic else linear_kernel
    matrix = np.zeros((out, size))
    for i in range(out):
        center = ratio * (i + 0.5)
        first, last = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), size)
        row = kernel((np.arange(first, last) - center + 0.5) / wide)
        matrix[i, first:last] = row / row.sum()
    return matrix


def _factors(t: Tracer, scales: Sequence[Any], given: Mapping[str, Any], rank: int) -> list[float | None]:
    """Return the factors per dimension that the call states, in any of its overloads; None where it states a size."""
    if t.call.target.endswith(".vec"):
        listed = given.get("scale_factors", scales[0] if scales else None)
    elif given:
        names = {1: ("scales",), 2: ("scales_h", "scales_w"), 3: ("scales_d", "scales_h", "scales_w")}[rank]
        listed = [given.get(name) for name in names]
    else:
        listed = scales
    return [None if f is None else float(f) for f in listed] if listed else [None] * rank


def _by_matrix(cubic: bool, antialias: bool) -> Callable[..., Value]:
    build = _smoothed if antialias else _weights

    def resize(
        t: Tracer, input: Value, output_size: Any, align_corners: bool, *scales: Any, **given: Any
    ) -> Value:
        """Multiply every spatial dimension by its matrix."""
        rank = len(input.shape) - 2
        factors = _factors(t, scales, given, rank)
        for k in range(rank):
            size, out = input.shape[2 + k], t.shape[2 + k]
            if size != out or antialias:
                input = multiplied(t, input, 2 + k, build(size, out, factors[k], align_corners, cubic))
        return input

    return resize


def _by_matrix_backward(cubic: bool, antialias: bool = False) -> Callable[..., Value]:
    build = _smoothed if antialias else _weights

    def resize(
        t: Tracer,
        grad_output: Value,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        *scales: Any,
        **given: Any,
    ) -> Value:
        """Multiply every spatial dimension by the transpose of its matrix."""
        rank = len(input_size) - 2
        factors = _factors(t, scales, given, rank)
        for k in range(rank):
            size, out = input_size[2 + k], grad_output.shape[2 + k]
            if size != out or antialias:
                matrix = build(size, out, factors[k], align_corners, cubic)
                grad_output = multiplied(t, grad_output, 2 + k, matrix.T)
        return grad_output

    return resize


def _nearest_places(size: int, out: int, factor: float | None, exact: bool) -> np.ndarray:
    ratio = np.float32(_ratio(size, out, factor))
    line = np.arange(out, dtype=np.float32) + np.float32(0.5 if exact else 0)
    return np.asarray(np.minimum(np.floor(line * ratio).astype(np.int64), size - 1))


def _nearest(exact: bool) -> Callable[..., Value]:
    def resize(t: Tracer, input: Value, output_size: Any, *scales: Any, **given: Any) -> Value:
        """Resize by taking elements: every element of the result is one of the input's."""
        rank = len(input.shape) - 2
        factors = _factors(t, scales, given, rank)
        for k in range(rank):
            size, out = input.shape[2 + k], t.shape[2 + k]
            if size != out:
                input = take(t, input, 2 + k, t.literal(_nearest_places(size, out, factors[k], exact)))
        return input

    return resize


def _nearest_backward(exact: bool) -> Callable[..., Value]:
    def resize(
        t: Tracer,
        grad_output: Value,
        output_size: Sequence[int],
        input_size: Sequence[int],
        *scales: Any,
        **given: Any,
    ) -> Value:
        """Sum for each element the gradients of its copies."""
        rank = len(input_size) - 2
        factors = _factors(t, scales, given, rank)
        for k in range(rank):
            size, out = input_size[2 + k], grad_output.shape[2 + k]
            if size != out:
                matrix = np.zeros((size, out))
                matrix[_nearest_places(size, out, factors[k], exact), np.arange(out)] = 1
                grad_output = multiplied(t, grad_output, 2 + k, matrix)
        return grad_output

    return resize


def _affine_grid(t: Tracer, theta: Value, size: Sequence[int], align_corners: bool) -> Value:
    """Compute the points of an image of `size`, in [-1, 1], transformed by an affine map per image."""
    spatial = list(size[2:])
    points = np.ones((*spatial, len(spatial) + 1))
    for k, n in enumerate(spatial[::-1]):
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(1)
        line = line if align_corners else line * (n - 1) / n
        points[..., k] = line.reshape([-1 if j == len(spatial) - 1 - k else 1 for j in range(len(spatial))])
    labels = tuple(f"s{k}" for k in range(len(spatial)))
    base = t.cast(t.literal(points), theta.dtype)
    return t.contract([base, theta], [(*labels, "k"), ("n", "o", "k")], ("n", *labels, "o"))


def _names(mode: str, ranks: Sequence[int], suffix: str = "") -> tuple[str, ...]:
    names = {"linear": {1: "linear1d", 2: "bilinear2d", 3: "trilinear3d"}}
    stems = [names.get(mode, {}).get(n, f"{mode}{n}d") for n in ranks]
    return aten(*(f"upsample_{s}{suffix}{o}" for s in stems for o in _forms(suffix)))


def _exact(suffix: str) -> tuple[str, ...]:
    return aten(*(f"_upsample_nearest_exact{n}d{suffix}{o}" for n in (1, 2, 3) for o in _forms(suffix)))


def _forms(suffix: str) -> tuple[str, ...]:
    """Return the overload suffixes; the one with factors as a list exists for the forward operator only."""
    return ("",) if suffix else ("", ".vec")


RESAMPLING: tuple[TorchOperator, ...] = (
    TorchOperator(_names("nearest", (1, 2, 3)), _nearest(exact=False)),
    TorchOperator(_exact(""), _nearest(exact=True)),
    TorchOperator(_exact("_backward"), _nearest_backward(exact=True)),
    TorchOperator(_names("linear", (1, 2, 3)), _by_matrix(cubic=False, antialias=False)),
    TorchOperator(_names("bicubic", (2,)), _by_matrix(cubic=True, antialias=False)),
    TorchOperator(aten("_upsample_bilinear2d_aa", "_upsample_bilinear2d_aa.vec"), _by_matrix(False, True)),
    TorchOperator(aten("_upsample_bicubic2d_aa", "_upsample_bicubic2d_aa.vec"), _by_matrix(True, True)),
    TorchOperator(_names("nearest", (1, 2, 3), "_backward"), _nearest_backward(exact=False)),
    TorchOperator(_names("linear", (1, 2, 3), "_backward"), _by_matrix_backward(cubic=False)),
    TorchOperator(_names("bicubic", (2,), "_backward"), _by_matrix_backward(cubic=True)),
    TorchOperator(aten("_upsample_bilinear2d_aa_backward"), _by_matrix_backward(False, True)),
    TorchOperator(aten("_upsample_bicubic2d_aa_backward"), _by_matrix_backward(True, True)),
    TorchOperator(aten("affine_grid_generator"), _affine_grid),
)
