"""The functions on elements in jax.numpy, on arguments of one element type; see `promotion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy import special

from tapestry.teg.arrays.randomness import GOLDEN, mixed

JaxArray = Any

# Functions that jax.numpy has, by its names for them.
PLAIN: Mapping[str, str] = {
    **{name: name for name in ("add", "fmod", "abs", "sign", "square", "sqrt", "reciprocal", "exp", "expm1")},
    **{name: name for name in ("log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "floor", "ceil")},
    **{
        name: name for name in ("trunc", "where", "cbrt", "exp2", "log2", "real", "imag", "conj", "logaddexp")
    },
    "sub": "subtract",
    "mul": "multiply",
    "pow": "power",
    "neg": "negative",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
    "atan2": "arctan2",
    "round": "rint",
    "min": "minimum",
    "max": "maximum",
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "and": "logical_and",
    "or": "logical_or",
    "xor": "logical_xor",
    "not": "logical_not",
    "bit_and": "bitwise_and",
    "bit_or": "bitwise_or",
    "bit_xor": "bitwise_xor",
    "bit_not": "bitwise_not",
    "shift_left": "left_shift",
    "shift_right": "right_shift",
    "is_nan": "isnan",
    "is_inf": "isinf",
    "is_finite": "isfinite",
    "next_after": "nextafter",
}


def _is_integer(a: JaxArray) -> bool:
    return bool(jnp.issubdtype(a.dtype, jnp.integer))


def _by_zero(divide: Callable[[JaxArray, JaxArray], JaxArray]) -> Callable[[JaxArray, JaxArray], JaxArray]:
    """Wrap a division so that integers divided by zero give zero, as in numpy."""

    def call(a: JaxArray, b: JaxArray) -> JaxArray:
        if not _is_integer(a):
            return divide(a, b)
        none = b == 0
        return jnp.where(none, 0, divide(a, jnp.where(none, 1, b)))

    return call


def _divide(a: JaxArray, b: JaxArray) -> JaxArray:
    return jax.lax.div(*jnp.broadcast_arrays(a, b)) if _is_integer(a) else jnp.divide(a, b)


def _logical_shift(a: JaxArray, b: JaxArray) -> JaxArray:
    return jax.lax.shift_right_logical(*jnp.broadcast_arrays(a, b))


def _round_away(a: JaxArray) -> JaxArray:
    whole = jnp.trunc(a)
    return jnp.where(jnp.abs(a - whole) >= 0.5, whole + jnp.sign(a), whole)


def _polygamma(n: JaxArray, x: JaxArray) -> JaxArray:
    """Compute the n-th derivative of digamma (Abramowitz and Stegun 6.4.10)."""
    sign = jnp.where(n % 2 == 0, -1, 1).astype(x.dtype)
    series = sign * jnp.exp(special.gammaln(n + 1)) * special.zeta(n + 1, x)
    return jnp.where(n == 0, special.digamma(x), series)


def _random_words(seed: JaxArray, counter: JaxArray) -> JaxArray:
    """Compute 64 random bits for each counter, as uint64, from uint64."""
    stream = mixed(seed + jnp.uint64(GOLDEN))
    return mixed(mixed(counter * jnp.uint64(GOLDEN) + stream) ^ stream)


FUNCTIONS: Mapping[str, Callable[..., JaxArray]] = {
    **{name: getattr(jnp, library_name) for name, library_name in PLAIN.items()},
    "identity": lambda a: a,
    "div": _by_zero(_divide),
    "mod": _by_zero(jnp.remainder),
    "fmod": _by_zero(jnp.fmod),
    "floor_div": _by_zero(jnp.floor_divide),
    "rsqrt": lambda a: jnp.reciprocal(jnp.sqrt(a)),
    "erf": special.erf,
    "sigmoid": lambda a: jnp.reciprocal(jnp.exp(-a) + 1),
    "relu": lambda a: jnp.maximum(a, jnp.zeros_like(a)),
    "gelu": lambda a: jax.nn.gelu(a, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
    "quick_gelu": lambda a: a * jax.nn.sigmoid(1.702 * a),
    "softplus": jax.nn.softplus,
    "erf_inv": special.erfinv,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "bessel_i1e": special.i1e,
    "zeta": special.zeta,
    "polygamma": _polygamma,
    "round_away": _round_away,
    "complex": jax.lax.complex,
    "shift_right_logical": _logical_shift,
    "popcount": jax.lax.population_count,
    "count_leading_zeros": jax.lax.clz,
    "random_bits": _random_words,
    "random_uniform": lambda s, c: (_random_words(s, c) >> jnp.uint64(11)).astype(jnp.float64) * 2.0**-53,
}

# Functions of short floats that are rounded once, at the end.
IN_SINGLE = frozenset(
    (
        *(
            "gelu",
            "gelu_tanh",
            "silu",
            "quick_gelu",
            "softplus",
            "sigmoid",
            "erf",
            "erf_inv",
            "lgamma",
            "digamma",
        ),
        *(
            "bessel_i1e",
            "zeta",
            "polygamma",
            "cbrt",
            "pow",
            "rsqrt",
            "atan2",
            "logaddexp",
            "round_away",
            "complex",
        ),
    )
)
