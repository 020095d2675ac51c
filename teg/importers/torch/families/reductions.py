"""Reductions, norms, softmax and their gradients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call
from tapestry.teg.importers.translate.translation import plain_labels


def _count(x: Value, axes: Sequence[int]) -> int:
    return math.prod(x.shape[k] for k in axes)


def _sum(t: Tracer, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    value = t.cast(x, t.dtype)
    return t.reduce(value, t.axes(dim, len(x.shape)), keep=keepdim)


def mean(t: Tracer, x: Value, axes: Sequence[int], keep: bool) -> Value:
    """Compute the mean over `axes`, in the value's own type."""
    return t.reduce(x, axes, keep=keep, scale=1 / max(_count(x, axes), 1)) if axes else x


def _mean(t: Tracer, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return mean(t, t.cast(x, t.dtype), t.axes(dim, len(x.shape)), keepdim)


def variance(t: Tracer, x: Value, axes: Sequence[int], keep: bool, correction: float) -> tuple[Value, Value]:
    """Compute variance and mean over `axes`: the mean first, then the squared differences from it."""
    middle = mean(t, x, axes, keep=True)
    squares = t.cells(lambda a, m: (a - m) * (a - m), x, middle, dtype=x.dtype)
    left = _count(x, axes) - correction
    spread = t.reduce(squares, axes, keep=keep, scale=1 / left if left > 0 else math.inf)
    return spread, middle if keep else t.squeeze(middle, *axes)


def _variance(
    t: Tracer, x: Value, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **given: Any
) -> Value:
    correction = given.get("correction", 1 if unbiased is None else int(unbiased))
    axes = t.axes(dim, len(x.shape))
    return variance(t, t.cast(x, t.dtype), axes, keepdim, 1 if correction is None else correction)[0]


def _variance_of_all(t: Tracer, x: Value, unbiased: bool = True) -> Value:
    return _variance(t, x, None, unbiased)


def _var_correction(
    t: Tracer, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    return _variance(t, x, dim, keepdim=keepdim, correction=correction)


def _std_correction(
    t: Tracer, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> Value:
    spread = _var_correction(t, x, dim, correction=correction, keepdim=keepdim)
    return t.cells(partial(call, "sqrt"), spread, dtype=t.dtype)


def _var_mean(
    t: Tracer, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    return variance(t, x, t.axes(dim, len(x.shape)), keepdim, 1 if correction is None else correction)


def _std(t: Tracer, x: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Value:
    return _std_correction(t, x, dim, correction=int(unbiased), keepdim=keepdim)


def _std_of_all(t: Tracer, x: Value, unbiased: bool = True) -> Value:
    return _std(t, x, None, unbiased)


def _var_mean_dim(
    t: Tracer, x: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False
) -> tuple[Value, Value]:
    return _var_mean(t, x, dim, correction=int(unbiased), keepdim=keepdim)


def _std_mean(
    t: Tracer, x: Value, dim: Any = None, *, correction: Any = None, keepdim: bool = False
) -> tuple[Value, Value]:
    spread, middle = _var_mean(t, x, dim, correction=correction, keepdim=keepdim)
    return t.cells(partial(call, "sqrt"), spread, dtype=x.dtype), middle


def _extreme(monoid: str, t: Tracer, x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    return t.reduce(x, t.axes(dim, len(x.shape)), monoid, keep=keepdim)


def _prod(t: Tracer, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    return t.reduce(t.cast(x, t.dtype), t.axes(dim, len(x.shape)), "prod", keep=keepdim)


def _any(monoid: str, t: Tracer, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    found = t.reduce(t.cast(x, "bool"), t.axes(dim, len(x.shape)), monoid, keep=keepdim)
    return t.cast(found, t.dtype)


def _logsumexp(t: Tracer, x: Value, dim: Any, keepdim: bool = False) -> Value:
    return t.reduce(t.cast(x, t.dtype), t.axes(dim, len(x.shape)), "logsumexp", keep=keepdim)


def norm(t: Tracer, x: Value, p: float, axes: Sequence[int], keep: bool) -> Value:
    """Compute the p-norm over `axes`."""
    if math.isinf(p):
        return t.reduce(
            t.cells(partial(call, "abs"), x, dtype=x.dtype), axes, "max" if p > 0 else "min", keep
        )
    if p == 0:
        hits = t.cells(lambda a: call("ne", a, 0.0), x, dtype=x.dtype)
        return t.reduce(hits, axes, keep=keep)

    def power(a: CellExpr) -> CellExpr:
        return call("abs", a) if p == 1 else a * a if p == 2 else call("pow", call("abs", a), p)

    total = t.reduce(t.cells(power, x, dtype=x.dtype), axes, keep=keep)
    if p == 1:
        return total
    return t.cells(lambda a: call("sqrt", a) if p == 2 else call("pow", a, 1 / p), total, dtype=x.dtype)


def _norm(t: Tracer, x: Value, p: float | None = None, dim: Any = None, keepdim: bool = False) -> Value:
    return norm(t, t.cast(x, t.dtype), 2.0 if p is None else float(p), t.axes(dim, len(x.shape)), keepdim)


def _vector_norm(t: Tracer, x: Value, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Value:
    return _norm(t, x, ord, dim, keepdim)


def softmax(t: Tracer, x: Value, dim: int, operator: str = "softmax") -> Value:
    """Compute the softmax, or its logarithm, along one dimension."""
    labels = plain_labels(len(x.shape))
    if not labels:
        return t.full((), 1 if operator == "softmax" else 0, x.dtype)
    axes = (labels[t.axis(dim, len(labels))],)
    return t.compute(operator, [x], [labels], labels, x.dtype, {"axes": axes})


def _softmax(operator: str, t: Tracer, x: Value, dim: int, half_to_float: bool = False) -> Value:
    return softmax(t, t.cast(x, t.dtype), dim, operator)


def _softmax_int(operator: str, t: Tracer, x: Value, dim: int, dtype: Any = None) -> Value:
    return softmax(t, t.cast(x, t.dtype), dim, operator)


def _softmax_backward(t: Tracer, grad_output: Value, output: Value, dim: int, input_dtype: Any) -> Value:
    inner = grad_output.dtype
    product = t.cells(lambda g, y: g * y, grad_output, output, dtype=inner)
    total = t.reduce(product, [t.axis(dim, len(output.shape))] if output.shape else [], keep=True)
    return t.cells(lambda p, y, s: p - y * s, product, output, total, dtype=t.dtype, within=inner)


def _log_softmax_backward(t: Tracer, grad_output: Value, output: Value, dim: int, input_dtype: Any) -> Value:
    inner = grad_output.dtype
    total = t.reduce(grad_output, [t.axis(dim, len(output.shape))] if output.shape else [], keep=True)
    return t.cells(
        lambda g, y, s: g - call("exp", y) * s, grad_output, output, total, dtype=t.dtype, within=inner
    )


def _count_nonzero(t: Tracer, x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    hits = t.cells(lambda a: call("ne", a, 0), x, dtype="int64", within=x.dtype)
    return t.reduce(hits, t.axes(dim, len(x.shape)), keep=keepdim)


def _mse(t: Tracer, x: Value, target: Value, reduction: int = 1) -> Value:
    return reduced(t, t.cells(lambda a, b: (a - b) * (a - b), x, target, dtype=t.dtype), reduction)


def _l1(t: Tracer, x: Value, target: Value, reduction: int = 1) -> Value:
    return reduced(t, t.cells(lambda a, b: call("abs", a - b), x, target, dtype=t.dtype), reduction)


def reduced(t: Tracer, value: Value, reduction: int) -> Value:
    """Reduce a loss by torch's code of the reduction: 0 none, 1 mean, 2 sum."""
    axes = range(len(value.shape))
    return (
        value if reduction == 0 else mean(t, value, axes, False) if reduction == 1 else t.reduce(value, axes)
    )


REDUCTIONS: tuple[TorchOperator, ...] = (
    TorchOperator(aten("sum", "sum.dim_IntList"), _sum),
    TorchOperator(aten("mean", "mean.dim"), _mean),
    TorchOperator(aten("var.dim"), _variance),
    TorchOperator(aten("var"), _variance_of_all),
    TorchOperator(aten("var.correction"), _var_correction),
    TorchOperator(aten("std.correction"), _std_correction),
    TorchOperator(aten("var_mean.correction"), _var_mean),
    TorchOperator(aten("std.dim"), _std),
    TorchOperator(aten("std"), _std_of_all),
    TorchOperator(aten("var_mean.dim"), _var_mean_dim),
    TorchOperator(aten("std_mean.correction"), _std_mean),
    TorchOperator(aten("amax", "max"), partial(_extreme, "max")),
    TorchOperator(aten("amin", "min"), partial(_extreme, "min")),
    TorchOperator(aten("prod", "prod.dim_int"), _prod),
    TorchOperator(aten("any", "any.dim", "any.dims"), partial(_any, "any")),
    TorchOperator(aten("all", "all.dim", "all.dims"), partial(_any, "all")),
    TorchOperator(aten("logsumexp"), _logsumexp),
    TorchOperator(aten("norm.ScalarOpt_dim", "norm.Scalar"), _norm),
    TorchOperator(aten("linalg_vector_norm"), _vector_norm),
    TorchOperator(aten("_softmax"), partial(_softmax, "softmax")),
    TorchOperator(aten("_log_softmax"), partial(_softmax, "log_softmax")),
    TorchOperator(aten("softmax.int", "special_softmax"), partial(_softmax_int, "softmax")),
    TorchOperator(aten("log_softmax.int", "special_log_softmax"), partial(_softmax_int, "log_softmax")),
    TorchOperator(aten("_softmax_backward_data"), _softmax_backward),
    TorchOperator(aten("_log_softmax_backward_data"), _log_softmax_backward),
    TorchOperator(aten("count_nonzero.dim_IntList", "count_nonzero"), _count_nonzero),
    TorchOperator(aten("mse_loss"), _mse),
    TorchOperator(aten("l1_loss"), _l1),
)
