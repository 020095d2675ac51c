"""Reductions of parts of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import by_rank, filled
from tapestry.teg.exporters.spmd.runtime.jax_collectives import Combine
from tapestry.teg.exporters.spmd.runtime.mesh import (
    COUNT,
    MESH,
    Dims,
    boxes,
    position,
    sub_axes,
)
from tapestry.teg.exporters.spmd.runtime.transfers import reduced_places


def reduce_scatter_parts(
    x: jax.Array,
    held: Dims,
    wanted: Dims,
    *steps: Sequence[str],
    op: Combine = jnp.add,
) -> jax.Array:
    """Combine the members' terms axis by axis; parts may be of any size, or empty."""
    before: Any = [[range(a, b) for a, b in box] for box in boxes(held).tolist()]
    for done, axes in enumerate(steps, start=1):
        after = reduced_places(wanted, [a for names in steps[done:] for a in names])
        shapes = [[len(places) for places in parts] for parts in after]
        room = [max(sizes) for sizes in zip(*shapes, strict=True)]
        at = position(*(name for name in MESH if name not in sub_axes(*axes)))
        teams = [np.flatnonzero(at == k).tolist() for k in at]
        terms = jnp.zeros([len(teams[0]), *room], x.dtype)
        for pairs in scatter_rounds(teams, shapes):
            row = pick(x, before, {s: after[t] for s, t in pairs})
            if any(s != t for s, t in pairs):
                row = lax.ppermute(row, tuple(MESH), pairs)
            slots = np.zeros((COUNT, 2), int)
            for s, t in pairs:
                slots[t] = teams[t].index(s), 1
            slot, here = by_rank(slots)
            row = filled(row, room)
            changed = lax.dynamic_update_index_in_dim(terms, row, slot, 0)
            terms = lax.select(here > 0, changed, terms)
        x, before = reduce(op, terms), after
    return x


def scatter_rounds(
    teams: list[list[int]], shapes: list[list[int]]
) -> list[list[tuple[int, int]]]:
    """Pair each device with every one of its team, in rounds of one form."""
    rounds: dict[Any, list[tuple[int, int]]] = {}
    for target, team in enumerate(teams):
        for source in team:
            turn = (team.index(source) - team.index(target)) % len(team)
            if math.prod(shapes[target]):
                form = (turn, tuple(shapes[target]))
                rounds.setdefault(form, []).append((source, target))
    return list(rounds.values())


def pick(x: jax.Array, held: list[Any], wanted: dict[int, list[Any]]) -> jax.Array:
    """Return the elements at the places that each device is to send."""
    for dim, places in enumerate(next(iter(wanted.values()))):
        table = np.zeros((COUNT, len(places)), np.int64)
        for rank, parts in wanted.items():
            table[rank] = np.searchsorted(held[rank][dim], parts[dim])
        x = jnp.take(x, by_rank(table), axis=dim)
    return x
