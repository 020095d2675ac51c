"""Losses and their gradients: classification, distances, cross entropies."""

from __future__ import annotations

import math
from collections.abc import Callable

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.reductions import reduced, softmax
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, where

MEAN, SUM = 1, 2


def _classes(x: Value) -> int:
    """Return the dimension of classes: the second, or that of a single sample."""
    return min(1, len(x.shape) - 1)


def _chosen(t: Tracer, x: Value, target: Value, ignore: int) -> Value:
    """Gather for each sample the element of its class; any for samples to be ignored."""
    axis = _classes(x)
    safe = t.cells(lambda c: where(call("eq", c, ignore), 0, c), target, dtype="int64")
    opened = t.unsqueeze(safe, axis)
    found = t.gather(x, opened, axis, [k for k in range(len(x.shape)) if k != axis])
    return t.squeeze(found, axis)


def _weights(t: Tracer, target: Value, weight: Value | None, ignore: int, dtype: str) -> Value:
    """Gather for each sample the weight of its class; zero where it is ignored."""
    kept = t.cells(lambda c: call("ne", c, ignore), target, dtype=dtype, within="int64")
    if weight is None:
        return kept
    safe = t.cells(lambda c: where(call("eq", c, ignore), 0, c), target, dtype="int64")
    return t.cells(lambda k, w: k * w, kept, t.gather(weight, safe, 0), dtype=dtype)


def _nll(
    t: Tracer,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> tuple[Value, Value]:
    """Compute the negative log-likelihood loss, and the sum of the weights."""
    weights = _weights(t, target, weight, ignore_index, x.dtype)
    chosen = _chosen(t, x, target, ignore_index)
    each = t.cells(lambda a, w: where(call("eq", w, 0), 0.0, -a * w), chosen, weights, dtype=x.dtype)
    axes = range(len(each.shape))
    total = t.reduce(weights, axes)
    if reduction == 0:
        return each, total
    loss = t.reduce(each, axes)
    return (loss if reduction == SUM else t.cells(lambda a, w: a / w, loss, total, dtype=x.dtype)), total


def _nll_loss(
    t: Tracer,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
) -> Value:
    return _nll(t, x, target, weight, reduction, ignore_index)[0]


def _nll_backward(
    t: Tracer,
    grad_output: Value,
    x: Value,
    target: Value,
    weight: Value | None,
    reduction: int,
    ignore_index: int,
    total_weight: Value,
) -> Value:
    """Compute the gradient: minus the weight at the class of each sample, zero elsewhere."""
    axis = _classes(x)
    weights = _weights(t, target, weight, ignore_index, x.dtype)
    grad = grad_output
    if reduction == MEAN:
        grad = t.cells(lambda g, w: g / w, grad, t.cast(total_weight, x.dtype), dtype=x.dtype)
    each = t.cells(lambda g, w: where(call("eq", w, 0), 0.0, -g * w), grad, weights, dtype=x.dtype)
    opened = [t.unsqueeze(v, axis) for v in (each, target)]
    hit = ("eq", ("index", f"d{axis}"), ("input", 1))
    wide = t.expand(opened[0], x.shape)
    zero = ("cast", x.dtype, ("const", 0))
    return t.elements(("where", hit, ("input", 0), zero), [wide, opened[1]], x.dtype)


def _cross_entropy(
    t: Tracer,
    x: Value,
    target: Value,
    weight: Value | None = None,
    reduction: int = MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Value:
    """Compute the cross entropy of classes, or of their probabilities."""
    axis = _classes(x)
    logs = softmax(t, x, axis, "log_softmax")
    if target.shape == x.shape:
        return _soft_cross_entropy(t, logs, target, weight, reduction, label_smoothing)
    loss, total = _nll(t, logs, target, weight, reduction, ignore_index)
    if not label_smoothing:
        return loss
    vector = None if weight is None else _vector(t, weight, x)
    weighted = logs if vector is None else t.cells(lambda a, w: a * w, logs, vector, dtype=x.dtype)
    kept = _weights(t, target, None, ignore_index, x.dtype)
    smooth = t.cells(lambda a, k: -a * k, t.reduce(weighted, [axis]), kept, dtype=x.dtype)
    if reduction:
        smooth = t.reduce(smooth, range(len(smooth.shape)))
    if reduction == MEAN:
        smooth = t.cells(lambda a, w: a / w, smooth, total, dtype=x.dtype)
    share = label_smoothing / x.shape[axis]
    return t.cells(lambda a, b: (1 - label_smoothing) * a + share * b, loss, smooth, dtype=x.dtype)


def _vector(t: Tracer, weight: Value, x: Value) -> Value:
    return t.reshape(weight, (weight.shape[0], *(1,) * (len(x.shape) - 1 - _classes(x))))


def _soft_cross_entropy(
    t: Tracer, logs: Value, target: Value, weight: Value | None, reduction: int, smoothing: float
) -> Value:
    axis, dtype = _classes(logs), logs.dtype
    count = logs.shape[axis]

    def product(a: CellExpr, p: CellExpr) -> CellExpr:
        return -a * (p * (1 - smoothing) + smoothing / count if smoothing else p)

    each = t.cells(product, logs, target, dtype=dtype)
    if weight is not None:
        each = t.cells(lambda a, w: a * w, each, _vector(t, weight, logs), dtype=dtype)
    per_sample = t.reduce(each, [axis])
    return reduced(t, per_sample, reduction) if per_sample.shape else per_sample


def _smooth_l1(beta: float) -> Callable[[CellExpr, CellExpr], CellExpr]:
    def distance(a: CellExpr, b: CellExpr) -> CellExpr:
        away = call("abs", a - b)
        return where(away < beta, away * away * (0.5 / beta), away - 0.5 * beta) if beta else away

    return distance


def _smooth_l1_loss(t: Tracer, x: Value, target: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    return reduced(t, t.cells(_smooth_l1(beta), x, target, dtype=t.dtype), reduction)


def _huber_loss(t: Tracer, x: Value, target: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    scaled = _smooth_l1(delta)
    return reduced(t, t.cells(lambda a, b: delta * scaled(a, b), x, target, dtype=t.dtype), reduction)


def _share(x: Value, target: Value, reduction: int) -> float:
    return 1 / max(x.size, target.size, 1) if reduction == MEAN else 1.0


def _mse_backward(t: Tracer, grad_output: Value, x: Value, target: Value, reduction: int) -> Value:
    share = 2 * _share(x, target, reduction)
    return t.cells(lambda g, a, b: g * (a - b) * share, grad_output, x, target, dtype=t.dtype)


def _smooth_l1_backward(
    t: Tracer, grad_output: Value, x: Value, target: Value, reduction: int, beta: float
) -> Value:
    share = _share(x, target, reduction)

    def slope(g: CellExpr, a: CellExpr, b: CellExpr) -> CellExpr:
        away = a - b
        inner = away / beta if beta else call("sign", away)
        return g * share * where(call("abs", away) < beta, inner, call("sign", away))

    return t.cells(slope, grad_output, x, target, dtype=t.dtype)


def _huber_backward(
    t: Tracer, grad_output: Value, x: Value, target: Value, reduction: int, delta: float
) -> Value:
    share = _share(x, target, reduction)

    def slope(g: CellExpr, a: CellExpr, b: CellExpr) -> CellExpr:
        return g * share * call("min", call("max", a - b, -delta), delta)

    return t.cells(slope, grad_output, x, target, dtype=t.dtype)


def _weighted(t: Tracer, each: Value, weight: Value | None, reduction: int) -> Value:
    if weight is not None:
        each = t.cells(lambda a, w: a * w, each, weight, dtype=each.dtype)
    return reduced(t, each, reduction)


def _binary(t: Tracer, x: Value, target: Value, weight: Value | None = None, reduction: int = MEAN) -> Value:
    """Compute the binary cross entropy; logarithms are clamped at -100, as torch's are."""

    def entropy(a: CellExpr, y: CellExpr) -> CellExpr:
        on, off = (call("max", call("log", p), -100.0) for p in (a, 1 - a))
        return -(y * on + (1 - y) * off)

    return _weighted(t, t.cells(entropy, x, target, dtype=t.dtype), weight, reduction)


def _binary_backward(
    t: Tracer, grad_output: Value, x: Value, target: Value, weight: Value | None = None, reduction: int = MEAN
) -> Value:
    share = _share(x, target, reduction)

    def slope(g: CellExpr, a: CellExpr, y: CellExpr) -> CellExpr:
        return g * share * (a - y) / call("max", (1 - a) * a, 1e-12)

    found = t.cells(slope, grad_output, x, target, dtype=t.dtype)
    return found if weight is None else t.cells(lambda a, w: a * w, found, weight, dtype=t.dtype)


def _binary_of_logits(
    t: Tracer,
    x: Value,
    target: Value,
    weight: Value | None = None,
    pos_weight: Value | None = None,
    reduction: int = MEAN,
) -> Value:
    def entropy(a: CellExpr, y: CellExpr, *positive: CellExpr) -> CellExpr:
        below = call("relu", -a) + call("log1p", call("exp", -call("abs", a)))
        heavy = 1 + (positive[0] - 1) * y if positive else 1.0
        return (1 - y) * a + heavy * below

    given = [x, target, *([] if pos_weight is None else [pos_weight])]
    return _weighted(t, t.cells(entropy, *given, dtype=t.dtype), weight, reduction)


def _kl_div(t: Tracer, x: Value, target: Value, reduction: int = MEAN, *, log_target: bool = False) -> Value:
    def distance(a: CellExpr, b: CellExpr) -> CellExpr:
        if log_target:
            return call("exp", b) * (b - a)
        return where(b > 0, b * (call("log", b) - a), 0.0)

    return reduced(t, t.cells(distance, x, target, dtype=t.dtype), reduction)


def _soft_margin(t: Tracer, x: Value, target: Value, reduction: int = MEAN) -> Value:
    each = t.cells(lambda a, y: call("log1p", call("exp", -y * a)), x, target, dtype=t.dtype)
    return reduced(t, each, reduction)


def _poisson(
    t: Tracer, input: Value, target: Value, log_input: bool, full: bool, eps: float, reduction: int
) -> Value:
    def loss(a: CellExpr, y: CellExpr) -> CellExpr:
        plain = call("exp", a) - y * a if log_input else a - y * call("log", a + eps)
        extra = y * call("log", y) - y + 0.5 * call("log", 2 * math.pi * y)
        return plain + where(y > 1, extra, 0.0) if full else plain

    return reduced(t, t.cells(loss, input, target, dtype=t.dtype), reduction)


LOSSES: tuple[TorchOperator, ...] = (
    TorchOperator(aten("nll_loss_forward", "nll_loss2d_forward"), _nll),
    TorchOperator(aten("nll_loss", "nll_loss2d", "nll_loss_nd"), _nll_loss),
    TorchOperator(aten("nll_loss_backward", "nll_loss2d_backward"), _nll_backward),
    TorchOperator(aten("cross_entropy_loss"), _cross_entropy),
    TorchOperator(aten("smooth_l1_loss"), _smooth_l1_loss),
    TorchOperator(aten("huber_loss"), _huber_loss),
    TorchOperator(aten("mse_loss_backward"), _mse_backward),
    TorchOperator(aten("smooth_l1_loss_backward"), _smooth_l1_backward),
    TorchOperator(aten("huber_loss_backward"), _huber_backward),
    TorchOperator(aten("binary_cross_entropy"), _binary),
    TorchOperator(aten("binary_cross_entropy_backward"), _binary_backward),
    TorchOperator(aten("binary_cross_entropy_with_logits"), _binary_of_logits),
    TorchOperator(aten("kl_div"), _kl_div),
    TorchOperator(aten("soft_margin_loss"), _soft_margin),
    TorchOperator(aten("poisson_nll_loss"), _poisson),
)
