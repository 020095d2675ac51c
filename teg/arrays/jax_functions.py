"""The functions on elements in jax.numpy, on arguments of one element type; see `promotion`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy import special

from tapestry.teg.arrays.randomness import GOLDEN, mixed
from tapestry.teg.arrays.standard_functions import ROUNDED_TWICE, standard_functions

JaxArray = Any


def _divide(a: JaxArray, b: JaxArray) -> JaxArray:
    exact = jnp.issubdtype(a.dtype, jnp.integer)
    return jax.lax.div(*jnp.broadcast_arrays(a, b)) if exact else jnp.divide(a, b)


def _logical_shift(a: JaxArray, b: JaxArray) -> JaxArray:
    return jax.lax.shift_right_logical(*jnp.broadcast_arrays(a, b))


def _random_words(seed: JaxArray, counter: JaxArray) -> JaxArray:
    """Compute 64 random bits for each counter, as uint64, from uint64."""
    stream = mixed(seed + jnp.uint64(GOLDEN))
    return mixed(mixed(counter * jnp.uint64(GOLDEN) + stream) ^ stream)


OWN: Mapping[str, Callable[..., JaxArray]] = {
    "div": _divide,
    "rsqrt": lambda a: jnp.reciprocal(jnp.sqrt(a)),
    "erf": special.erf,
    "sigmoid": lambda a: jnp.reciprocal(jnp.exp(-a) + 1),
    "relu": lambda a: jnp.maximum(a, jnp.zeros_like(a)),
    "gelu": lambda a: jax.nn.gelu(a, approximate=False),
    "gelu_tanh": jax.nn.gelu,
    "silu": jax.nn.silu,
    "quick_gelu": lambda a: a * jax.nn.sigmoid(1.702 * a),
    "softplus": jax.nn.softplus,
    "cbrt": jnp.cbrt,
    "erf_inv": special.erfinv,
    "lgamma": special.gammaln,
    "digamma": special.digamma,
    "bessel_i1e": special.i1e,
    "zeta": special.zeta,
    "complex": jax.lax.complex,
    "shift_right_logical": _logical_shift,
    "popcount": jax.lax.population_count,
    "count_leading_zeros": jax.lax.clz,
    "random_bits": _random_words,
    "random_uniform": lambda s, c: (_random_words(s, c) >> jnp.uint64(11)).astype(jnp.float64) * 2.0**-53,
}
FUNCTIONS = standard_functions(jnp, OWN)
# Functions of short floats that are rounded once, at the end.
IN_SINGLE = ROUNDED_TWICE | {"rsqrt"}
