"""Work that differs from device to device in a program that is traced once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    Dims,
    boxes,
    lengths,
    sub_axes,
)


def axis_index(*axes: str) -> jax.Array:
    """Return the position of a device along axes, as the program runs."""
    return lax.axis_index(tuple(sub_axes(*axes)))


def by_rank(table: Any) -> jax.Array:
    """Return the row of a table that belongs to the device on which the program runs."""
    rank = lax.axis_index(tuple(MESH)).astype(jnp.uint32)
    return lax.dynamic_index_in_dim(jnp.array(table, jnp.uint32), rank, keepdims=False)


def room(dims: Dims) -> Any:
    """Return the shape in which every device's part has room."""
    return tuple(np.max(lengths(boxes(dims)), axis=0).astype(int).tolist())


def filled(x: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Fill an array up with zeros."""
    margins = [(0, n - m, 0) for n, m in zip(shape, x.shape, strict=True)]
    return lax.pad(x, jnp.zeros((), x.dtype), margins)


def by_device(
    function: Callable[..., Any], kinds: Sequence[int], *operands: jax.Array
) -> Any:
    """Let each device do what the device does that stands for its kind; fill up parts."""
    ranks = sorted(set(kinds))

    def parts(rank: int) -> Any:
        return jax.tree.leaves(function(rank, *operands))

    def branch(rank: int) -> list[jax.Array]:
        return [filled(x, shape) for x, shape in zip(parts(rank), shapes, strict=True)]

    made = [jax.eval_shape(partial(parts, rank)) for rank in ranks]
    every = [[x.shape for x in same] for same in zip(*made, strict=True)]
    shapes = [[max(sizes) for sizes in zip(*same, strict=True)] for same in every]
    own = by_rank([ranks.index(kind) for kind in kinds])
    results = lax.switch(own, [partial(branch, rank) for rank in ranks])
    return results if len(results) > 1 else results[0]


def after(x: jax.Array, y: jax.Array) -> jax.Array:
    """Return `x`, to be read when `y` is there: a copy of it is unlike an earlier one."""
    return lax.optimization_barrier((x, y))[0]
