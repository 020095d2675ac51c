"""Operators that programs spell out are found again: softmax, its logarithm, layer normalisation.

Exports and traced programs write them as reductions and cells. What is normalised over is any group of
dimensions, and what is done with the result in the same cell stays around it. Not for saturation: a search that
expands an operator, to split its rows or to fuse its parts, shall keep what it chose.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rewrites.equations import equation
from rewrites.rule import Rule

SOFTMAX = "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018, algorithm 2"
LAYER_NORM = "Ba, Kiros and Hinton, Layer Normalization, 2016, equation 3"
MOMENTS = "Var x = E[x^2] - (E x)^2 (König-Huygens)"
LOG_SUM = "Blanchard, Higham and Higham, Accurately computing the log-sum-exp, 2021"

ROWS = {"x": "m k"}
AFFINE = {"x": "m k", "s": "k", "t": "k"}
EPS = {"eps": 1.1e-5}


def _exponential(x: Any) -> Any:
    return (x - x.max("k")).exp()


def _centred_variance(x: Any) -> Any:
    return (x - x.mean("k")).square().mean("k")


def _moments_variance(x: Any) -> Any:
    return x.square().mean("k") - x.mean("k").square()


def _clamped_variance(x: Any) -> Any:
    return _moments_variance(x).relu()


def _times(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
    return (x - mean) * (variance + eps).rsqrt()


def _over(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
    return (x - mean) / (variance + eps).sqrt()


def _in_one_cell(end: Callable[..., Any]) -> Callable[..., Any]:
    """The root of the variance taken anew for every element, in the cell that scales it."""

    def normalised(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
        return x.fused("normalised", lambda a, b, c: end(a, b, c, eps), mean, variance)

    return normalised


VARIANCES = (
    ("centred", _centred_variance, "mean_k((x - mean_k x)^2)", LAYER_NORM),
    ("moments", _moments_variance, "mean_k(x^2) - (mean_k x)^2", MOMENTS),
    ("clamped_moments", _clamped_variance, "relu(mean_k(x^2) - (mean_k x)^2)", MOMENTS),
)
ENDS = (
    ("", _times, "* rsqrt", ""),
    ("_over_root", _over, "/ sqrt", ""),
    ("_in_a_cell", _in_one_cell(_times), "* rsqrt", ", the root in the cell of the elements"),
    ("_over_root_in_a_cell", _in_one_cell(_over), "/ sqrt", ", the root in the cell of the elements"),
)


def _layer_norm(variance: Callable[[Any], Any], end: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A layer normalisation by this variance, its root taken like this."""
    return lambda x, eps: end(x, x.mean("k"), variance(x), eps)


RECOMPOSITION: tuple[Rule, ...] = (
    equation(
        "softmax_of_parts",
        left=lambda x: _exponential(x) / _exponential(x).sum("k"),
        right=lambda x: x.softmax("k"),
        tensors=ROWS,
        doc="""
        A spelled out softmax is named.

        e / sum_k e with e = exp(x - max_k x)  ->  softmax_k(x)
        Over any dimensions: it is the definition, computed so that nothing overflows.
        """,
        source=SOFTMAX,
    ),
    equation(
        "softmax_of_exponentials",
        left=lambda x: x.exp() / x.exp().sum("k"),
        right=lambda x: x.softmax("k"),
        tensors=ROWS,
        doc="""
        A softmax without a shift is named.

        exp(x) / sum_k exp(x)  ->  softmax_k(x)
        Over any dimensions: a shift of all exponents cancels; where an exponential overflows it is even right.
        """,
        source=SOFTMAX,
    ),
    equation(
        "gradient_of_quotient",
        left=lambda e, s, g: (g / s - (g * e * s.square().reciprocal()).sum("k")) * e,
        right=lambda e, s, g: (g - (g * (e / s)).sum("k")) * (e / s),
        tensors={"e": "m k", "s": "m", "g": "m k"},
        doc="""
        The derivative of a softmax, traced by the rule of quotients, reads the softmax only.

        (g / s - sum_k (g e / s^2)) e  ->  (g - sum_k (g y)) y with y = e / s
        Over any dimensions. The quotient is what the forward pass has; what it is made of need not be kept.
        """,
        source="rule of quotients",
    ),
    equation(
        "gradient_of_negated_quotient",
        left=lambda e, s, g: (g / s + -(g * e * s.square().reciprocal()).sum("k")) * e,
        right=lambda e, s, g: (g - (g * (e / s)).sum("k")) * (e / s),
        tensors={"e": "m k", "s": "m", "g": "m k"},
        doc="""
        The derivative of a softmax, traced by the rule of quotients, reads the softmax only.

        (g / s + (-sum_k (g e / s^2))) e  ->  (g - sum_k (g y)) y with y = e / s
        Over any dimensions. As `gradient_of_quotient`, the sign apart, as transposed programs have it.
        """,
        source="rule of quotients",
    ),
    equation(
        "log_softmax_of_parts",
        left=lambda x: (x - x.max("k")) - _exponential(x).sum("k").log(),
        right=lambda x: x.log_softmax("k"),
        tensors=ROWS,
        doc="""
        A spelled out logarithmic softmax is named.

        d - log(sum_k exp(d)) with d = x - max_k x  ->  log_softmax_k(x)
        Over any dimensions: it is the definition.
        """,
        source=SOFTMAX,
    ),
    equation(
        "log_softmax_of_sum",
        left=lambda x: x - x.logsumexp("k"),
        right=lambda x: x.log_softmax("k"),
        tensors=ROWS,
        doc="""
        A value less the logarithm of its row's sum of exponentials is a logarithmic softmax.

        x - logsumexp_k(x)  ->  log_softmax_k(x)
        Over any dimensions: it is the definition.
        """,
        source=SOFTMAX,
    ),
    equation(
        "log_of_softmax",
        left=lambda x: x.softmax("k").log(),
        right=lambda x: x.log_softmax("k"),
        tensors=ROWS,
        doc="""
        The logarithm of a softmax is one operator.

        log(softmax_k(x))  ->  log_softmax_k(x)
        Over any dimensions: where a probability underflows it is even right.
        """,
        source=SOFTMAX,
    ),
    equation(
        "logsumexp_of_parts",
        left=lambda x: x.max("k") + _exponential(x).sum("k").log(),
        right=lambda x: x.logsumexp("k"),
        tensors=ROWS,
        doc="""
        A spelled out sum in the logarithmic domain is one reduction.

        m + log(sum_k exp(x - m)) with m = max_k x  ->  logsumexp_k(x)
        Over any dimensions, of finite maxima.
        """,
        source=LOG_SUM,
    ),
    *(
        equation(
            f"layer_norm_of_{name}{suffix}",
            left=_layer_norm(variance, end),
            right=lambda x, eps: x.layer_norm("k", eps=eps),
            tensors=ROWS,
            numbers=EPS,
            doc=f"""
            A spelled out layer normalisation is named.

            (x - mean_k x) {root}({form} + eps)  ->  layer_norm_k(x)
            Over any dimensions{where}; scale and bias, where there are some, stay around it.
            """,
            source=source,
        )
        for name, variance, form, source in VARIANCES
        for suffix, end, root, where in ENDS
    ),
    equation(
        "layer_norm_of_scale",
        left=lambda x, s, t, eps: x.layer_norm("k", eps=eps) * s + t,
        right=lambda x, s, t, eps: x.layer_norm("k", scale=s, bias=t, eps=eps),
        tensors=AFFINE,
        numbers=EPS,
        doc="""
        The scale and bias behind a layer normalisation become part of it.

        layer_norm_k(x) s + t  ->  layer_norm_k(x, s, t)
        Where s and t vary along the dimensions that are normalised over: the operator's own order of things.
        """,
        source=LAYER_NORM,
    ),
)
