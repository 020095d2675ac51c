"""Exchanges of pieces as rounds of permutations."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import (
    Array,
    by_rank,
    data_of,
    largest,
    shapes_of,
    with_shapes,
)
from tapestry.teg.exporters.spmd.runtime.mesh import (
    MESH,
    Box,
    Dims,
    boxes,
)
from tapestry.teg.exporters.spmd.runtime.transfers import FetchedPiece, transfers


def exchange(x: Array, held: Dims, needed: Dims) -> Array:
    """Fetch the part that each device needs, piece by piece, from the devices that hold it."""
    have, want = boxes(held), boxes(needed)
    source, parts = data_of(x), have
    shapes = shapes_of(want)
    result = jnp.zeros(largest(shapes), source.dtype)
    for moves in transfers(held, needed):
        given = source
        for batch in batches(moves):
            result = move(result, given, batch, parts, want)
        source, parts = result, want
    return with_shapes(result, shapes)


def batches(moves: list[FetchedPiece]) -> list[list[FetchedPiece]]:
    """Group transfers into rounds: equal in form, and each device sends and receives at most once."""
    rounds: dict[Any, list[list[FetchedPiece]]] = {}
    for m in moves:
        form = (
            tuple(b - a for a, b in m.box),
            m.stop - m.start,
            m.source == m.target,
        )
        listed = rounds.setdefault(form, [])
        free = (
            batch
            for batch in listed
            if all(o.source != m.source and o.target != m.target for o in batch)
        )
        batch = next(free, None)
        if batch is None:
            listed.append([m])
        else:
            batch.append(m)
    return [batch for listed in rounds.values() for batch in listed]


def move(
    result: jax.Array,
    x: jax.Array,
    batch: list[FetchedPiece],
    have: list[Box],
    want: list[Box],
) -> jax.Array:
    """Carry out one round of transfers as one permutation."""
    shape = [b - a for a, b in batch[0].box]
    length, total = batch[0].stop - batch[0].start, math.prod(shape)
    sent, received = {m.source: m for m in batch}, {m.target: m for m in batch}
    row = lax.dynamic_slice(x, starts(sent, have), shape).reshape(-1)
    if length < total:
        first = by_rank({d: m.start for d, m in sent.items()})
        row = lax.dynamic_slice(row, [first], [length])
    if batch[0].source != batch[0].target:
        row = lax.ppermute(row, tuple(MESH), [(m.source, m.target) for m in batch])
    at = starts(received, want)
    if length < total:
        place = lax.dynamic_slice(result, at, shape).reshape(-1)
        first = by_rank({d: m.start for d, m in received.items()})
        row = lax.dynamic_update_slice(place, row, [first])
    changed = lax.dynamic_update_slice(result, row.reshape(shape), at)
    return jnp.where(by_rank(dict.fromkeys(received, 1)) == 1, changed, result)


def starts(moves: dict[int, FetchedPiece], held: list[Box]) -> list[jax.Array]:
    """Return where the box that is moved begins in each device's part."""
    return [
        by_rank({d: m.box[k][0] - held[d][k][0] for d, m in moves.items()})
        for k in range(len(held[0]))
    ]
