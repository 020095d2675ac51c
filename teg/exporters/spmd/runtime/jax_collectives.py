"""Collectives between devices that run one traced program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import (
    Array,
    Padded,
    by_rank,
    data_of,
    device,
    filled,
    largest,
    shapes_of,
    with_shapes,
)
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    Dims,
    boxes,
    position,
)
from tapestry.teg.exporters.spmd.runtime.transfers import reduced_places

COMBINE = {
    "sum": jnp.add,
    "prod": jnp.multiply,
    "max": jnp.maximum,
    "min": jnp.minimum,
    "any": jnp.logical_or,
    "all": jnp.logical_and,
    "logsumexp": jnp.logaddexp,
}


def all_gather(x: jax.Array, dim: int, *axes: str) -> jax.Array:
    """Join the parts of all members along a dimension."""
    return lax.all_gather(x, axes, axis=dim, tiled=True)


def all_to_all(x: jax.Array, cut: int, joined: int, *axes: str) -> jax.Array:
    """Cut one dimension into a part for each member, and join the members' parts along another."""
    return lax.all_to_all(x, axes, cut, joined, tiled=True)


def scatter_rows(rows: jax.Array, axes: Sequence[str], op: str) -> jax.Array:
    """Combine the members' terms of each row; each member keeps the row of its position."""
    axes = tuple(axes)
    if op == "sum":
        return lax.psum_scatter(rows, axes)
    terms = lax.all_to_all(rows, axes, 0, 0, tiled=True)
    return reduce(COMBINE[op], terms)


def reduce_scatter(x: jax.Array, dim: int, *axes: str, op: str = "sum") -> jax.Array:
    """Combine the members' terms; each member keeps its part along a dimension."""
    if op == "sum":
        return lax.psum_scatter(x, axes, scatter_dimension=dim, tiled=True)
    count = math.prod(MESH[name] for name in axes)
    return scatter_rows(jnp.stack(jnp.split(x, count, dim)), axes, op)


def all_reduce(given: Array, *steps: Sequence[str], op: str = "sum") -> Array:
    """Combine the members' terms, on all of them; a monoid that the library lacks is combined by slices."""
    axes = tuple(name for names in steps for name in names)
    x = data_of(given)
    if op in ("sum", "max", "min") and x.dtype != bool:
        result = {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}[op](x, axes)
    else:
        count = math.prod(MESH[name] for name in axes)
        row = jnp.pad(x.reshape(-1), (0, -x.size % count))
        own = scatter_rows(row.reshape(count, -1), axes, op)
        whole_row = lax.all_gather(own, axes, tiled=True)
        result = whole_row[: x.size].reshape(x.shape)
    return Padded(result, given.shapes) if isinstance(given, Padded) else result


def reduce_scatter_parts(
    given: Array, held: Dims, wanted: Dims, *steps: Sequence[str], op: str = "sum"
) -> Array:
    """Combine the members' terms axis by axis; parts may be of any size, and some of them empty."""
    ranks = range(len(boxes(held)))
    x, shapes = data_of(given), shapes_of(boxes(held))
    before = [[list(range(a, b)) for a, b in box] for box in boxes(held)]
    for done, axes in enumerate(steps, start=1):
        later = [a for names in steps[done:] for a in names]
        after = [reduced_places(wanted, rank, later) for rank in ranks]
        shapes = [[len(places) for places in parts] for parts in after]
        room = largest(shapes)
        teams = [teammates(rank, axes) for rank in ranks]
        terms = jnp.zeros([len(teams[0]), *room], x.dtype)
        for pairs in scatter_rounds(teams, shapes):
            row = pick(x, before, {s: after[t] for s, t in pairs})
            if any(s != t for s, t in pairs):
                row = lax.ppermute(row, tuple(MESH), pairs)
            slot = by_rank({t: teams[t].index(s) for s, t in pairs})
            place = [slot, *[0] * len(room)]
            row = filled(row, room)[None]
            changed = lax.dynamic_update_slice(terms, row, place)
            here = by_rank({t: 1 for _, t in pairs}) == 1
            terms = jnp.where(here, changed, terms)
        x, before = reduce(COMBINE[op], terms), after
    return with_shapes(x, shapes)


def scatter_rounds(
    teams: list[list[int]], shapes: list[list[int]]
) -> list[list[tuple[int, int]]]:
    """Pair each device with every one of its team, in rounds: equal in form, one term per device."""
    rounds: dict[Any, list[tuple[int, int]]] = {}
    for target, team in enumerate(teams):
        for source in team:
            turn = (team.index(source) - team.index(target)) % len(team)
            if math.prod(shapes[target]):
                form = (turn, tuple(shapes[target]))
                rounds.setdefault(form, []).append((source, target))
    return list(rounds.values())


def pick(x: jax.Array, held: list[Any], wanted: dict[int, list[Any]]) -> jax.Array:
    """Return the elements at the product of coordinates that each device is to send."""
    sizes_wanted = [len(places) for places in next(iter(wanted.values()))]
    for dim, size in enumerate(sizes_wanted):
        table = np.zeros((len(held), size), np.int64)
        for rank, parts in wanted.items():
            table[rank] = [held[rank][dim].index(place) for place in parts[dim]]
        x = jnp.take(x, jnp.array(table)[device()], axis=dim)
    return x


def teammates(rank: int, axes: Sequence[str]) -> list[int]:
    """Return the devices that differ from one along the given sub-axes only, in order."""
    rest = [name for name in MESH if name not in axes]
    at = position(*rest, rank=rank)
    every = range(math.prod(MESH.values()))
    return [other for other in every if position(*rest, rank=other) == at]
