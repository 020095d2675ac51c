"""Operators that JAX has in another form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


def divide(x: Any, y: Any, rounding_mode: str) -> jax.Array:
    """Divide integers, and round toward zero (`trunc`) or down (`floor`)."""
    if rounding_mode == "floor":
        return jnp.floor_divide(x, y)
    return lax.div(*jnp.broadcast_arrays(x, y))


def layer_norm(
    x: jax.Array, shape: Sequence[int], *affine: jax.Array, eps: float
) -> jax.Array:
    """Normalize over the last dimensions, of `shape`; then scale, and shift."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    axes = tuple(range(-len(shape), 0))
    centered = wide - wide.mean(axes, keepdims=True)
    variance = jnp.square(centered).mean(axes, keepdims=True)
    result = (centered * lax.rsqrt(variance + eps)).astype(x.dtype)
    if affine:
        result = result * affine[0]
    return result + affine[1] if len(affine) > 1 else result


def spread(setting: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """Return a setting for each spatial dimension."""
    return (setting,) * rank if isinstance(setting, int) else tuple(setting)


def conv(
    x: jax.Array,
    w: jax.Array,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> jax.Array:
    """Convolve over all dimensions but the first two: batch and channels."""
    rank = x.ndim - 2
    return lax.conv_general_dilated(
        x,
        w,
        spread(stride, rank),
        [(side, side) for side in spread(padding, rank)],
        rhs_dilation=spread(dilation, rank),
        feature_group_count=groups,
    )


def max_pool(
    x: jax.Array,
    kernel: int | Sequence[int],
    stride: int | Sequence[int],
    dilation: int | Sequence[int] = 1,
) -> jax.Array:
    """Return the greatest element of each window."""
    rank = x.ndim - 2
    taps, steps, gaps = ((1, 1, *spread(s, rank)) for s in (kernel, stride, dilation))
    low = jnp.array(-jnp.inf, x.dtype)
    return lax.reduce_window(x, low, lax.max, taps, steps, "VALID", None, gaps)


def avg_pool(
    x: jax.Array, kernel: int | Sequence[int], stride: int | Sequence[int]
) -> jax.Array:
    """Return the average of each window."""
    rank = x.ndim - 2
    taps, steps = ((1, 1, *spread(s, rank)) for s in (kernel, stride))
    zero = jnp.array(0, x.dtype)
    return lax.reduce_window(x, zero, lax.add, taps, steps, "VALID") / math.prod(taps)
