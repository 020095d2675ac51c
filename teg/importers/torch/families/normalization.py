"""Normalizations and their gradients: moments, one cell, and the sums that the gradients need."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tapestry.teg.dtypes import HALF, numpy_dtype
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.reductions import mean, variance
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call
from tapestry.teg.importers.translate.translation import plain_labels


def _wide(t: Tracer, value: Value) -> Value:
    """Cast half-precision values to float32, in which torch computes moments."""
    return t.cast(value, "float32") if value.dtype in HALF else value


def _inverse(t: Tracer, spread: Value, eps: float) -> Value:
    return t.cells(lambda v: 1 / call("sqrt", v + eps), spread, dtype=spread.dtype)


def _moments(t: Tracer, x: Value, axes: Sequence[int], eps: float) -> tuple[Value, Value]:
    """Compute the mean and the inverse deviation over `axes`, which stay with size 1."""
    spread, middle = variance(t, x, axes, keep=True, correction=0)
    return middle, _inverse(t, spread, eps)


def _layer(t: Tracer, x: Value, count: int, weight: Value | None, bias: Value | None, eps: float) -> Value:
    labels = plain_labels(len(x.shape))
    tail = labels[len(labels) - count :]
    given = [x, *(v for v in (weight,) if v is not None)]
    if weight is not None and bias is not None:
        given.append(bias)
    if math.prod(x.shape[len(labels) - count :]) == 1:
        return _layer_of_one(t, x, count, weight, bias, eps)
    own = [labels, *(tail for _ in given[1:])]
    normal = t.compute("layer_norm", given, own, labels, x.dtype, {"axes": tail, "eps": float(eps)})
    if weight is None and bias is not None:
        return t.cells(lambda a, b: a + b, normal, bias, dtype=x.dtype)
    return normal


def _layer_of_one(
    t: Tracer, x: Value, count: int, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    """Normalize single elements, of which nothing is left but the bias."""
    axes = range(len(x.shape) - count, len(x.shape))
    middle, inverse = _moments(t, x, axes, eps)
    normal = t.cells(lambda a, m, r: (a - m) * r, x, middle, inverse, dtype=x.dtype)
    return _scaled(t, normal, weight, bias)


def _scaled(t: Tracer, value: Value, weight: Value | None, bias: Value | None) -> Value:
    if weight is not None:
        value = t.cells(lambda a, w: a * w, value, weight, dtype=value.dtype)
    return value if bias is None else t.cells(lambda a, b: a + b, value, bias, dtype=value.dtype)


def _native_layer_norm(
    t: Tracer,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> tuple[Value, Value, Value]:
    """Normalize; moments that the backward pass reads are computed separately, and dropped where unread."""
    count = len(normalized_shape)
    axes = range(len(input.shape) - count, len(input.shape))
    middle, inverse = _moments(t, _wide(t, input), axes, eps)
    moments = [
        t.cast(m, t.recorded(k).dtype) if _is_recorded(t, k) else m for k, m in ((1, middle), (2, inverse))
    ]
    return _layer(t, input, count, weight, bias, eps), moments[0], moments[1]


def _is_recorded(t: Tracer, position: int) -> bool:
    return position < len(t.call.outputs) and t.call.outputs[position] is not None


def _layer_norm(
    t: Tracer,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Value:
    return _layer(t, input, len(normalized_shape), weight, bias, eps)


def _layer_norm_backward(
    t: Tracer,
    grad_out: Value,
    input: Value,
    normalized_shape: Sequence[int],
    mean: Value,
    rstd: Value,
    weight: Value | None,
    bias: Value | None,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    rank, count = len(input.shape), len(normalized_shape)
    inner, outer = range(rank - count, rank), range(rank - count)
    g, x, m, r = (_wide(t, v) for v in (grad_out, input, mean, rstd))
    normal = t.cells(lambda a, b, c: (a - b) * c, x, m, r, dtype=x.dtype)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        scaled = g if weight is None else t.cells(lambda a, w: a * w, g, _wide(t, weight), dtype=g.dtype)
        results[0] = _through_moments(t, scaled, normal, r, inner, input.dtype)
    if output_mask[1] and weight is not None:
        product = t.cells(lambda a, b: a * b, g, normal, dtype=g.dtype)
        results[1] = t.cast(t.reduce(product, outer), weight.dtype)
    if output_mask[2] and bias is not None:
        results[2] = t.cast(t.reduce(g, outer), bias.dtype)
    return tuple(results)


def _through_moments(
    t: Tracer, g: Value, normal: Value, inverse: Value, axes: Sequence[int], dtype: str
) -> Value:
    """Compute the gradient of `normal = (x - mean) * inverse` for x, both moments taken over `axes`."""
    first = mean(t, g, axes, keep=True)
    second = mean(t, t.cells(lambda a, b: a * b, g, normal, dtype=g.dtype), axes, keep=True)

    def formula(a: CellExpr, n: CellExpr, r: CellExpr, p: CellExpr, q: CellExpr) -> CellExpr:
        return (a - p - n * q) * r

    return t.cells(formula, g, normal, inverse, first, second, dtype=dtype, within=g.dtype)


def _rms_norm(
    t: Tracer,
    input: Value,
    normalized_shape: Sequence[int],
    weight: Value | None = None,
    eps: float | None = None,
) -> Value:
    axes = range(len(input.shape) - len(normalized_shape), len(input.shape))
    x = _wide(t, input)
    small = float(np.finfo(numpy_dtype(x.dtype)).eps) if eps is None else eps
    squares = mean(t, t.cells(lambda a: a * a, x, dtype=x.dtype), axes, keep=True)
    normal = t.cells(lambda a, s: a / call("sqrt", s + small), x, squares, dtype=input.dtype, within=x.dtype)
    return _scaled(t, normal, weight, None)


def _grouped(x: Value, groups: int) -> tuple[int, ...]:
    return (x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _per_channel(t: Tracer, vector: Value, groups: int, spatial: int) -> Value:
    return t.reshape(vector, (groups, vector.shape[0] // groups, *(1,) * spatial))


def _native_group_norm(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[Value, Value, Value]:
    """Normalize groups of channels together; scale and bias are per channel."""
    x = t.reshape(_wide(t, input), _grouped(input, group))
    axes, spatial = range(2, len(x.shape)), len(input.shape) - 2
    middle, inverse = _moments(t, x, axes, eps)
    normal = t.cells(lambda a, m, r: (a - m) * r, x, middle, inverse, dtype=x.dtype)
    scale, shift = (None if v is None else _per_channel(t, v, group, spatial) for v in (weight, bias))
    result = t.cast(t.reshape(_scaled(t, normal, scale, shift), input.shape), t.dtype)
    kinds = [t.recorded(k).dtype if _is_recorded(t, k) else x.dtype for k in (1, 2)]
    moments = (t.cast(t.reshape(m, (N, group)), k) for m, k in zip((middle, inverse), kinds, strict=True))
    return (result, *moments)  # type: ignore[return-value]


def _group_norm(
    t: Tracer,
    input: Value,
    num_groups: int,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    n, c, *rest = input.shape
    return _native_group_norm(t, input, weight, bias, n, c, math.prod(rest), num_groups, eps)[0]


def _native_group_norm_backward(
    t: Tracer,
    grad_out: Value,
    input: Value,
    mean: Value,
    rstd: Value,
    weight: Value | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    shape, spatial = _grouped(input, group), len(input.shape) - 2
    g, x = (t.reshape(_wide(t, v), shape) for v in (grad_out, input))
    m, r = (t.reshape(_wide(t, v), (N, group, *(1,) * (len(shape) - 2))) for v in (mean, rstd))
    normal = t.cells(lambda a, b, c: (a - b) * c, x, m, r, dtype=x.dtype)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        scale = None if weight is None else _per_channel(t, _wide(t, weight), group, spatial)
        inner = _through_moments(t, _scaled(t, g, scale, None), normal, r, range(2, len(shape)), input.dtype)
        results[0] = t.reshape(inner, input.shape)
    kind = t.recorded(1).dtype if _is_recorded(t, 1) else grad_out.dtype
    axes = [0, *range(3, len(shape))]
    if output_mask[1]:
        product = t.cells(lambda a, b: a * b, g, normal, dtype=g.dtype)
        results[1] = t.cast(t.reshape(t.reduce(product, axes), (C,)), kind)
    if output_mask[2]:
        results[2] = t.cast(t.reshape(t.reduce(g, axes), (C,)), kind)
    return tuple(results)


NORMALIZATION: tuple[TorchOperator, ...] = (
    TorchOperator(aten("native_layer_norm"), _native_layer_norm),
    TorchOperator(aten("layer_norm"), _layer_norm),
    TorchOperator(aten("native_layer_norm_backward"), _layer_norm_backward),
    TorchOperator(aten("rms_norm"), _rms_norm),
    TorchOperator(aten("native_group_norm"), _native_group_norm),
    TorchOperator(aten("group_norm"), _group_norm),
    TorchOperator(aten("native_group_norm_backward"), _native_group_norm_backward),
)
