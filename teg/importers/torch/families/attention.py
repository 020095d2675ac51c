"""Scaled dot-product attention in all its forms, as two contractions around a softmax."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapestry.teg.importers.program import Value
from tapestry.teg.importers.torch.families.reductions import softmax
from tapestry.teg.importers.torch.operator import TorchOperator, aten
from tapestry.teg.importers.torch.tracer import Tracer
from tapestry.teg.importers.translate.arithmetic import CellExpr, call, where

LOWEST = ("const", -math.inf)


def _shared(t: Tracer, value: Value, heads: int) -> Value:
    """Repeat heads of keys and values until there are as many as the queries have."""
    rank = len(value.shape)
    own = value.shape[-3]
    if rank < 3 or own == heads:
        return value
    wide = (*value.shape[:-2], heads // own, *value.shape[-2:])
    return t.reshape(
        t.expand(t.unsqueeze(value, rank - 2), wide), (*value.shape[:-3], heads, *value.shape[-2:])
    )


def _product(t: Tracer, a: Value, b: Value, left: str, right: str, out: str) -> Value:
    """Contract matrices in equal batches; `out` names the result's two dimensions."""
    batch = tuple(f"b{k}" for k in range(len(a.shape) - 2))
    return t.contract([a, b], [(*batch, *left), (*batch, *right)], (*batch, *out))


def _scores(
    t: Tracer, query: Value, key: Value, mask: Value | None, causal: bool, scale: float | None
) -> Value:
    """Compute scaled products, with the mask added or applied and (if `causal`) later positions masked."""
    products = _product(t, query, key, "qd", "kd", "qk")
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    rank = len(products.shape)
    tree: Any = ("mul", ("input", 0), ("const", factor))
    given = [products]
    if mask is not None:
        given.append(mask if mask.dtype == "bool" else t.cast(mask, query.dtype))
        tree = ("where", ("input", 1), tree, LOWEST) if mask.dtype == "bool" else ("add", tree, ("input", 1))
    if causal:
        tree = ("where", ("le", ("index", f"d{rank - 1}"), ("index", f"d{rank - 2}")), tree, LOWEST)
    return t.elements(tree, given, query.dtype)


def safe_softmax(t: Tracer, x: Value, dim: int) -> Value:
    """Compute a softmax that is zero where everything is masked."""
    highest = t.reduce(x, [t.axis(dim, len(x.shape))], "max", keep=True)
    weights = softmax(t, x, dim)
    return t.cells(lambda w, m: where(call("eq", m, -math.inf), 0.0, w), weights, highest, dtype=x.dtype)


def _attend(
    t: Tracer,
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> tuple[Value, Value, Value]:
    """Compute attention; return the result, the weights and the scores."""
    if dropout:
        raise t.refuse("draws random numbers (dropout); export the program in evaluation mode")
    if len(query.shape) > 2:
        key, value = (_shared(t, v, query.shape[-3]) for v in (key, value))
    lead = query.shape[:-2]
    key, value = (t.expand(v, (*lead, *v.shape[-2:])) for v in (key, value))
    scores = _scores(t, query, key, mask, causal, scale)
    weights = softmax(t, scores, -1) if mask is None else safe_softmax(t, scores, -1)
    return _product(t, weights, value, "qk", "kd", "qd"), weights, scores


def _attention(
    t: Tracer,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Value:
    return _attend(t, query, key, value, attn_mask, dropout_p, is_causal, scale)[0]


def _math(
    t: Tracer,
    query: Value,
    key: Value,
    value: Value,
    attn_mask: Value | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    dropout_mask: Value | None = None,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value]:
    return _attend(t, query, key, value, attn_mask, dropout_p, is_causal, scale)[:2]


def _logsumexp(t: Tracer, scores: Value) -> Value:
    """Compute for each query the logarithm of the softmax's sum, in the type that is recorded."""
    wide = t.cast(scores, t.recorded(1).dtype)
    return t.reduce(wide, [len(scores.shape) - 1], "logsumexp")


def _for_cpu(
    t: Tracer,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, Value]:
    result, _, scores = _attend(t, query, key, value, attn_mask, dropout_p, is_causal, scale)
    return result, _logsumexp(t, scores)


def _flash(
    t: Tracer,
    query: Value,
    key: Value,
    value: Value,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    return_debug_mask: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Value, Value]:
    result, _, scores = _attend(t, query, key, value, None, dropout_p, is_causal, scale)
    return result, _logsumexp(t, scores)


def _efficient(
    t: Tracer,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None,
    compute_log_sumexp: bool,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Value | None, ...]:
    result, _, scores = _attend(t, query, key, value, attn_bias, dropout_p, is_causal, scale)
    return result, _logsumexp(t, scores) if compute_log_sumexp else None


def _kept_weights(t: Tracer, scores: Value, kept: Value) -> Value:
    """Compute the softmax from its kept log-sums; where torch decomposed the forward pass it kept the weights."""
    if kept.shape == scores.shape:
        return kept
    opened = t.unsqueeze(t.cast(kept, scores.dtype), len(scores.shape) - 1)
    return t.cells(lambda s, z: call("exp", s - z), scores, opened, dtype=scores.dtype)


def _gradients(
    t: Tracer,
    grad: Value,
    operands: tuple[Value, Value, Value],
    out: Value,
    logsumexp: Value,
    mask: Value | None,
    dropout: float,
    causal: bool,
    scale: float | None,
) -> tuple[Value, Value, Value]:
    """Compute the gradients of query, key and value; weights come from the scores and their kept log-sums."""
    if dropout:
        raise t.refuse("draws random numbers (dropout); export the program in evaluation mode")
    query, key, value = operands
    own = key.shape
    key, value = (_shared(t, v, query.shape[-3]) if len(own) > 2 else v for v in (key, value))
    weights = _kept_weights(t, _scores(t, query, key, mask, causal, scale), logsumexp)
    of_weights = _product(t, grad, value, "qd", "kd", "qk")
    dots = t.reduce(t.cells(lambda a, b: a * b, grad, out, dtype=grad.dtype), [len(out.shape) - 1], keep=True)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale

    def slope(p: CellExpr, a: CellExpr, d: CellExpr) -> CellExpr:
        return p * (a - d) * factor

    of_scores = t.cells(slope, weights, of_weights, dots, dtype=query.dtype)
    return (
        _product(t, of_scores, key, "qk", "kd", "qd"),
        _per_own_head(t, _product(t, of_scores, query, "qk", "qd", "kd"), own),
        _per_own_head(t, _product(t, weights, grad, "qk", "qd", "kd"), own),
    )


def _per_own_head(t: Tracer, grad: Value, own: Sequence[int]) -> Value:
    """Sum the gradients of repeated heads."""
    if len(own) < 3 or grad.shape[-3] == own[-3]:
        return grad
    lead, heads = grad.shape[:-3], own[-3]
    opened = t.reshape(grad, (*lead, heads, grad.shape[-3] // heads, *grad.shape[-2:]))
    return t.reduce(opened, [len(lead) + 1])


def _for_cpu_backward(
    t: Tracer,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    dropout_p: float,
    is_causal: bool,
    *,
    attn_mask: Value | None = None,
    scale: float | None = None,
) -> tuple[Value, ...]:
    operands = (query, key, value)
    return _gradients(t, grad_out, operands, out, logsumexp, attn_mask, dropout_p, is_causal, scale)


def _flash_backward(
    t: Tracer,
    grad_out: Value,
    query: Value,
    key: Value,
    value: Value,
    out: Value,
    logsumexp: Value,
    cum_seq_q: Any,
    cum_seq_k: Any,
    max_q: Any,
    max_k: Any,
    dropout_p: float,
    is_causal: bool,
    philox_seed: Any,
    philox_offset: Any,
    *,
    scale: float | None = None,
) -> tuple[Value, ...]:
    return _gradients(t, grad_out, (query, key, value), out, logsumexp, None, dropout_p, is_causal, scale)


def _efficient_backward(
    t: Tracer,
    grad_out_: Value,
    query: Value,
    key: Value,
    value: Value,
    attn_bias: Value | None,
    out: Value,
    logsumexp: Value,
    philox_seed: Any,
    philox_offset: Any,
    dropout_p: float,
    grad_input_mask: Sequence[bool],
    is_causal: bool = False,
    *,
    scale: float | None = None,
) -> tuple[Value | None, ...]:
    if grad_input_mask[3]:
        raise t.refuse("is unsupported where the bias needs a gradient")
    operands = (query, key, value)
    return (*_gradients(t, grad_out_, operands, out, logsumexp, attn_bias, dropout_p, is_causal, scale), None)


def _safe_softmax(t: Tracer, x: Value, dim: int, dtype: Any = None) -> Value:
    return safe_softmax(t, t.cast(x, t.dtype), dim)


ATTENTION: tuple[TorchOperator, ...] = (
    TorchOperator(aten("scaled_dot_product_attention"), _attention),
    TorchOperator(aten("_scaled_dot_product_attention_math"), _math),
    TorchOperator(aten("_scaled_dot_product_flash_attention_for_cpu"), _for_cpu),
    TorchOperator(aten("_scaled_dot_product_flash_attention"), _flash),
    TorchOperator(aten("_scaled_dot_product_efficient_attention"), _efficient),
    TorchOperator(aten("_scaled_dot_product_flash_attention_for_cpu_backward"), _for_cpu_backward),
    TorchOperator(aten("_scaled_dot_product_flash_attention_backward"), _flash_backward),
    TorchOperator(aten("_scaled_dot_product_efficient_attention_backward"), _efficient_backward),
    TorchOperator(aten("_safe_softmax"), _safe_softmax),
)
