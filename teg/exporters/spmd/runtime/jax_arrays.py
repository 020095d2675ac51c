"""Arrays of which devices hold parts, and work that differs from device to device."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from tapestry.teg.exporters.spmd.runtime.mesh import MESH, Box


class Padded(NamedTuple):
    """An array whose parts differ in shape from device to device: filled up to the largest of each size."""

    data: jax.Array
    shapes: tuple[tuple[int, ...], ...]


Array: TypeAlias = jax.Array | Padded


def data_of(x: Array) -> jax.Array:
    """Return the array that all devices have alike, padding included."""
    return x.data if isinstance(x, Padded) else x


def with_shapes(data: jax.Array, shapes: Sequence[Sequence[int]]) -> Array:
    """Return an array with each device's own shape, if they differ."""
    if all(tuple(shape) == data.shape for shape in shapes):
        return data
    return Padded(data, tuple(map(tuple, shapes)))


def shapes_of(parts: list[Box]) -> list[list[int]]:
    """Return the shape of each device's part."""
    return [[b - a for a, b in box] for box in parts]


def largest(shapes: Sequence[Sequence[int]]) -> list[int]:
    """Return a shape in which all of them have room."""
    return [max(lengths) for lengths in zip(*shapes, strict=True)]


def filled(x: jax.Array, shape: Sequence[int]) -> jax.Array:
    """Fill an array up with zeros."""
    return lax.pad(
        x,
        jnp.zeros((), x.dtype),
        [(0, n - m, 0) for n, m in zip(shape, x.shape, strict=True)],
    )


def by_device(
    function: Callable[..., Any], kinds: Sequence[int], *operands: Array
) -> Any:
    """Let each device apply a function to its own parts: as the device does that stands for its kind."""

    def compute(rank: int) -> tuple[jax.Array, ...]:
        own = [
            x.data[tuple(map(slice, x.shapes[rank]))] if isinstance(x, Padded) else x
            for x in operands
        ]
        return tuple(jax.tree.leaves(function(rank, *own)))

    ranks = sorted(set(kinds))
    made = {rank: jax.eval_shape(partial(compute, rank)) for rank in ranks}
    shapes = [
        [made[kind][k].shape for kind in kinds] for k in range(len(made[ranks[0]]))
    ]
    rooms = list(map(largest, shapes))

    def branch(rank: int) -> tuple[jax.Array, ...]:
        return tuple(map(filled, compute(rank), rooms))

    chosen = jnp.array([ranks.index(kind) for kind in kinds])[device()]
    results = lax.switch(chosen, [partial(branch, rank) for rank in ranks])
    found = tuple(map(with_shapes, results, shapes))
    return found if len(found) > 1 else found[0]


def after(x: Array, y: Array) -> Array:
    """Return `x`, to be read when `y` is there: a copy of it is unlike an earlier one."""
    data, _ = lax.optimization_barrier((data_of(x), data_of(y)))
    return Padded(data, x.shapes) if isinstance(x, Padded) else data


def device() -> Any:
    """Return the number of the device on which the traced program runs."""
    return lax.axis_index(tuple(MESH))


def by_rank(values: dict[int, int]) -> jax.Array:
    """Return the number of the device on which the program runs; 0 where there is none."""
    count = math.prod(MESH.values())
    return jnp.array([values.get(d, 0) for d in range(count)])[device()]
