"""Batch normalization, with statistics of the batch or with running ones, forward and backward."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.teg.dtypes import HALF
from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.reductions import mean, variance
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call


def _channels(t: Tracer, vector: Value, rank: int) -> Value:
    """Reshape a vector over channels to broadcast against tensors `(n, channels, ...)`."""
    return t.reshape(vector, (vector.shape[0], *(1,) * (rank - 2)))


def _applied(
    t: Tracer, x: Value, middle: Value, inverse: Value, weight: Value | None, bias: Value | None
) -> Value:
    """Compute `(x - mean) * inverse * weight + bias` in one cell."""
    given = [v for v in (weight, bias) if v is not None]
    operands = [_channels(t, v, len(x.shape)) for v in (middle, inverse, *given)]

    def formula(a: CellExpr, m: CellExpr, r: CellExpr, *rest: CellExpr) -> CellExpr:
        left = list(rest)
        scaled = (a - m) * r if weight is None else (a - m) * (r * left.pop(0))
        return scaled if bias is None else scaled + left.pop(0)

    return t.cells(formula, x, *operands, dtype=x.dtype)


def _wide(t: Tracer, value: Value) -> Value:
    return t.cast(value, "float32") if value.dtype in HALF else value


def _inverse(t: Tracer, spread: Value, eps: float) -> Value:
    return t.cells(lambda v: 1 / call("sqrt", v + eps), spread, dtype=spread.dtype)


def _axes(x: Value) -> list[int]:
    return [k for k in range(len(x.shape)) if k != 1]


def _no_training(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    inverse = _inverse(t, _wide(t, running_var), eps)
    result = _applied(t, input, _wide(t, running_mean), inverse, weight, bias)
    saved = [t.full((0,), 0, o.dtype) for o in t.call.outputs[1:] if o is not None and o.shape == (0,)]
    return (result, *saved)


def _training(
    t: Tracer, input: Value, weight: Value | None, bias: Value | None, eps: float
) -> tuple[Value, Value, Value, Value]:
    """Normalize by the batch's statistics; return the result, mean, inverse deviation and variance.

    The variance is that of the whole batch, as it is normalized.
    """
    x = _wide(t, input)
    spread, middle = variance(t, x, _axes(x), keep=False, correction=0)
    inverse = _inverse(t, spread, eps)
    return _applied(t, input, middle, inverse, weight, bias), middle, inverse, spread


def _tracked(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running: tuple[Value, Value],
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value, Value, Value]:
    """Normalize by the batch's statistics; return the result, mean, inverse deviation, and the running statistics.

    Those are one step further, and their variance is that of a sample.
    """
    result, middle, inverse, spread = _training(t, input, weight, bias, eps)
    count = max(input.size // input.shape[1], 1)
    sample = count / max(count - 1, 1)
    old_mean, old_spread = running
    return (
        result,
        middle,
        inverse,
        t.cells(lambda a, b: (1 - momentum) * a + momentum * b, old_mean, middle, dtype=old_mean.dtype),
        t.cells(
            lambda a, b: (1 - momentum) * a + (momentum * sample) * b,
            old_spread,
            spread,
            dtype=old_spread.dtype,
        ),
    )


def _functional(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """Normalize; return the results and the next running statistics."""
    if not training:
        found = _no_training(t, input, weight, bias, running_mean, running_var, momentum, eps)
        saved = (*found[1:], *(t.full((0,), 0, "float32") for _ in range(3 - len(found))))
        return (found[0], *saved, running_mean, running_var)
    return _tracked(t, input, weight, bias, (running_mean, running_var), momentum, eps)


def _functional_with_reserve(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value,
    running_var: Value,
    momentum: float,
    eps: float,
) -> tuple[Value | None, ...]:
    """Translate the form with a reserve for a vendor's library; the reserve is empty."""
    found = _tracked(t, input, weight, bias, (running_mean, running_var), momentum, eps)
    return (*found[:3], t.full((0,), 0, "uint8"), *found[3:])


def _no_stats(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, Value, Value]:
    return _training(t, input, weight, bias, eps)[:3]


def _native(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Value, ...]:
    """Normalize by the batch's statistics in training or without running ones; running ones are updated in place."""
    if not training and running_mean is not None and running_var is not None:
        return _no_training(t, input, weight, bias, running_mean, running_var, momentum, eps)
    if running_mean is None or running_var is None:
        return _training(t, input, weight, bias, eps)[:3]
    *found, mean, var = _tracked(t, input, weight, bias, (running_mean, running_var), momentum, eps)
    t.replace("running_mean", mean)
    t.replace("running_var", var)
    return tuple(found)


def _batch_norm(
    t: Tracer,
    input: Value,
    weight: Value | None,
    bias: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Value:
    return _native(t, input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


def _instance_norm(
    t: Tracer,
    input: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Value:
    """Normalize each image by its own statistics, or by running ones where requested."""
    if not use_input_stats and running_mean is not None and running_var is not None:
        return _no_training(t, input, weight, bias, running_mean, running_var, momentum, eps)[0]
    if running_mean is not None:
        raise t.refuse("is unsupported where it updates running statistics")
    x, rank = _wide(t, input), len(input.shape)
    spread, middle = variance(t, x, range(2, rank), keep=True, correction=0)
    normal = t.cells(lambda a, m, r: (a - m) * r, x, middle, _inverse(t, spread, eps), dtype=x.dtype)
    for vector, combine in ((weight, "mul"), (bias, "add")):
        if vector is not None:
            normal = t.cells(
                lambda a, v, c=combine: call(c, a, v), normal, _channels(t, vector, rank), dtype=x.dtype
            )
    return t.cast(normal, t.dtype)


def _backward(
    t: Tracer,
    grad_out: Value,
    input: Value,
    weight: Value | None,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_invstd: Value | None,
    train: bool,
    eps: float,
    output_mask: Sequence[bool],
) -> tuple[Value | None, ...]:
    """Compute gradients through the batch's own statistics in training, else through the fixed ones."""
    rank, axes = len(input.shape), _axes(input)
    g, x = _wide(t, grad_out), _wide(t, input)
    if train:
        if save_mean is None or save_invstd is None:
            raise t.refuse("is supported in training only with the saved statistics")
        middle, inverse = save_mean, save_invstd
    else:
        if running_mean is None or running_var is None:
            raise t.refuse("is supported at inference only with running statistics")
        middle, inverse = _wide(t, running_mean), _inverse(t, _wide(t, running_var), eps)
    m, r = _channels(t, middle, rank), _channels(t, inverse, rank)
    normal = t.cells(lambda a, b, c: (a - b) * c, x, m, r, dtype=x.dtype)
    product = t.cells(lambda a, b: a * b, g, normal, dtype=g.dtype)
    results: list[Value | None] = [None, None, None]
    if output_mask[0]:
        scale = (
            r if weight is None else t.cells(lambda a, w: a * w, r, _channels(t, weight, rank), dtype=r.dtype)
        )
        if train:
            first, second = (mean(t, v, axes, keep=True) for v in (g, product))
            results[0] = t.cells(
                lambda a, n, s, p, q: (a - p - n * q) * s, g, normal, scale, first, second, dtype=input.dtype
            )
        else:
            results[0] = t.cells(lambda a, s: a * s, g, scale, dtype=input.dtype)
    if output_mask[1]:
        results[1] = t.cast(t.reduce(product, axes), t.recorded(1).dtype)
    if output_mask[2]:
        results[2] = t.cast(t.reduce(g, axes), t.recorded(2).dtype)
    return tuple(results)


def _backward_with_reserve(
    t: Tracer,
    grad_output: Value,
    input: Value,
    weight: Value,
    running_mean: Value | None,
    running_var: Value | None,
    save_mean: Value | None,
    save_var: Value | None,
    update: bool,
    eps: float,
    output_mask: Sequence[bool],
    reserve: Value,
) -> tuple[Value | None, ...]:
    statistics = (running_mean, running_var, save_mean, save_var)
    return _backward(t, grad_output, input, weight, *statistics, update, eps, output_mask)


BATCH_NORMALIZATION: tuple[TorchOperator, ...] = (
    TorchOperator(aten("_native_batch_norm_legit_no_training"), _no_training),
    TorchOperator(aten("_native_batch_norm_legit_functional"), _functional),
    TorchOperator(aten("_batch_norm_with_update_functional"), _functional_with_reserve),
    TorchOperator(aten("_native_batch_norm_legit.no_stats"), _no_stats),
    TorchOperator(aten("native_batch_norm", "_native_batch_norm_legit"), _native),
    TorchOperator(aten("batch_norm"), _batch_norm),
    TorchOperator(aten("instance_norm"), _instance_norm),
    TorchOperator(aten("native_batch_norm_backward"), _backward),
    TorchOperator(aten("batch_norm_backward"), _backward_with_reserve),
)
