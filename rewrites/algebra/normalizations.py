"""Recognition of expanded layer normalizations, however they write the variance and its root.

The mean of squares of the centered values, or the difference of two moments, clamped or not; times the reciprocal
root or over the root, computed per row or in the cell of the elements. Group normalizations of reshaped images are
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapestry.rewrites.equations import equation
from tapestry.rewrites.rule import Rule

LAYER_NORM = "Ba, Kiros and Hinton, Layer Normalization, 2016, equation 3"
MOMENTS = "Var x = E[x^2] - (E x)^2 (König-Huygens)"

ROWS = {"x": "m k"}
EPS = {"eps": 1.1e-5}


def _centered_variance(x: Any) -> Any:
    return (x - x.mean("k")).square().mean("k")


def _moments_variance(x: Any) -> Any:
    return x.square().mean("k") - x.mean("k").square()


def _clamped_variance(x: Any) -> Any:
    return _moments_variance(x).relu()


def _times(centered: Any, variance: Any, eps: Any) -> Any:
    return centered * (variance + eps).rsqrt()


def _over(centered: Any, variance: Any, eps: Any) -> Any:
    return centered / (variance + eps).sqrt()


def _per_row(end: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pattern that takes the root of the variance once per row."""
    return lambda x, mean, variance, eps: end(x - mean, variance, eps)


def _behind_centered(end: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pattern that takes the root for every element, in a cell that reads the centered values."""

    def normalized(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
        return (x - mean).fused("normalized", lambda c, v: end(c, v, eps), variance)

    return normalized


def _apart(end: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pattern that takes the root per row and subtracts the mean again in the cell that scales."""

    def normalized(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
        root = (variance + eps).rsqrt() if end is _times else (variance + eps).sqrt()
        scale = "mul" if end is _times else "div"
        return x.fused("normalized", lambda a, b, r: (a - b).function(scale, r), mean, root)

    return normalized


def _in_one_cell(end: Callable[..., Any]) -> Callable[..., Any]:
    """Return a pattern that takes the root of the variance for every element, in the cell that scales it."""

    def normalized(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
        return x.fused("normalized", lambda a, b, v: end(a - b, v, eps), mean, variance)

    return normalized


def _multiplied_out(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
    """Build the form that scales the mean once per row and subtracts it from the scaled values."""
    root = (variance + eps).rsqrt()
    return x * root - mean * root


def _multiplied_out_of_negative(x: Any, mean: Any, variance: Any, eps: Any) -> Any:
    """Build the form that scales the negative mean once per row and adds it to the scaled values."""
    root = (variance + eps).rsqrt()
    return x * root + (-mean) * root


VARIANCES = (
    ("layer_norm_of_centred", _centered_variance, "mean_k((x - mean_k x)^2)", LAYER_NORM),
    ("layer_norm_of_moments", _moments_variance, "mean_k(x^2) - (mean_k x)^2", MOMENTS),
    ("layer_norm_of_clamped_moments", _clamped_variance, "relu(mean_k(x^2) - (mean_k x)^2)", MOMENTS),
)
ENDS = (
    ("", _per_row(_times), "* rsqrt", ""),
    ("_over_root", _per_row(_over), "/ sqrt", ""),
    ("_in_a_cell", _in_one_cell(_times), "* rsqrt", ", the root in the cell of the elements"),
    ("_over_root_in_a_cell", _in_one_cell(_over), "/ sqrt", ", the root in the cell of the elements"),
)
SHARED_ENDS = (
    (
        "layer_norm_of_centred_multiplied_out",
        _multiplied_out,
        "* rsqrt",
        ", the scaled mean taken away from the scaled values",
    ),
    (
        "layer_norm_of_centred_multiplied_out_of_negative",
        _multiplied_out_of_negative,
        "* rsqrt",
        ", the scaled negative mean added to the scaled values",
    ),
    (
        "layer_norm_of_centred_taken_away_twice",
        _apart(_times),
        "* rsqrt",
        ", the mean taken away in both cells",
    ),
    (
        "layer_norm_of_centred_over_root_taken_away_twice",
        _apart(_over),
        "/ sqrt",
        ", the mean taken away in both cells",
    ),
    (
        "layer_norm_of_centred_behind_centred",
        _behind_centered(_times),
        "* rsqrt",
        ", the root in a cell behind the centered values",
    ),
    (
        "layer_norm_of_centred_over_root_behind_centred",
        _behind_centered(_over),
        "/ sqrt",
        ", the root in a cell behind the centered values",
    ),
)


def _layer_norm(variance: Callable[[Any], Any], end: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Build a layer normalization with this variance, whose root is taken by `end`."""
    return lambda x, eps: end(x, x.mean("k"), variance(x), eps)


NORMALIZATIONS: tuple[Rule, ...] = (
    *(
        equation(
            name,
            left=_layer_norm(variance, end),
            right=lambda x, eps: x.layer_norm("k", eps=eps),
            tensors=ROWS,
            numbers=EPS,
            doc=f"""
            A spelled out layer normalization is named.

            (x - mean_k x) {root}({form} + eps)  ->  layer_norm_k(x)
            Over any dimensions{where}; scale and bias, where there are some, stay around it.
            """,
            source=source,
        )
        for first, variance, form, source in VARIANCES
        for name, end, root, where in (
            *((first + suffix, *rest) for suffix, *rest in ENDS),
            *(SHARED_ENDS if variance is _centered_variance else ()),
        )
    ),
    equation(
        "layer_norm_of_scale",
        left=lambda x, s, eps: x.layer_norm("k", eps=eps) * s,
        right=lambda x, s, eps: x.layer_norm("k", scale=s, eps=eps),
        tensors={"x": "m k", "s": "k"},
        numbers=EPS,
        doc="""
        The scale behind a layer normalization becomes part of it.

        layer_norm_k(x) s  ->  layer_norm_k(x, s)
        Where s varies along the dimensions that are normalized over: the operator's own order of things.
        """,
        source=LAYER_NORM,
    ),
    equation(
        "layer_norm_of_bias",
        left=lambda x, s, t, eps: x.layer_norm("k", scale=s, eps=eps) + t,
        right=lambda x, s, t, eps: x.layer_norm("k", scale=s, bias=t, eps=eps),
        tensors={"x": "m k", "s": "k", "t": "k"},
        numbers=EPS,
        doc="""
        The bias behind a layer normalization becomes part of it.

        layer_norm_k(x, s) + t  ->  layer_norm_k(x, s, t)
        Where t varies along the dimensions that are normalized over: the operator's own order of things.
        """,
        source=LAYER_NORM,
    ),
)
