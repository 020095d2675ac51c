"""Collectives between devices that run one traced program."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce

import jax
import jax.numpy as jnp
from jax import lax
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    sub_axes,
)

Combine = Callable[..., jax.Array]


def all_gather(x: jax.Array, dim: int, *axes: str) -> jax.Array:
    """Join the parts of all members along a dimension."""
    return lax.all_gather(x, tuple(sub_axes(*axes)), axis=dim, tiled=True)


def all_to_all(x: jax.Array, cut: int, joined: int, *axes: str) -> jax.Array:
    """Cut a dimension into a part for each member; join what comes along another."""
    return lax.all_to_all(x, tuple(sub_axes(*axes)), cut, joined, tiled=True)


def reduce_scatter(
    x: jax.Array, dim: int, *axes: str, op: Combine = jnp.add
) -> jax.Array:
    """Combine the members' terms; each member keeps its part along a dimension."""
    if op is jnp.add:
        names = tuple(sub_axes(*axes))
        return lax.psum_scatter(x, names, scatter_dimension=dim, tiled=True)
    return reduce(op, all_to_all(x[None], dim + 1, 0, *axes))


REDUCED = {jnp.add: lax.psum, jnp.maximum: lax.pmax, jnp.minimum: lax.pmin}


def all_reduce(x: jax.Array, *steps: Sequence[str], op: Combine = jnp.add) -> jax.Array:
    """Combine the members' terms on all of them; what the library lacks, by slices."""
    axes = sub_axes(*(axis for axes in steps for axis in axes))
    if op in REDUCED and x.dtype != bool:
        return REDUCED[op](x, tuple(axes))
    row = jnp.pad(x.reshape(-1), (0, -x.size % math.prod(MESH[a] for a in axes)))
    own = reduce_scatter(row, 0, *axes, op=op)
    return all_gather(own, 0, *axes)[: x.size].reshape(x.shape)
