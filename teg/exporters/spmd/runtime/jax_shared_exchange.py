"""Exchanges in which devices near each other share what comes from afar, as rounds of permutations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import by_rank, room
from tapestry.teg.exporters.spmd.runtime.mesh import COUNT, MESH, Dims, boxes, lengths
from tapestry.teg.exporters.spmd.runtime.shared_transfers import (
    SharedPiece,
    shared_transfers,
)


def shared_exchange(x: jax.Array, held: Dims, needed: Dims) -> jax.Array:
    """Fetch each device's part piece by piece, in rounds of permutations."""
    have, want, rank = boxes(held), boxes(needed), x.ndim
    result = jnp.zeros(room(needed), x.dtype)
    for pieces in shared_transfers(held, needed):
        given, rounds = x, batches(pieces)
        # For each round: where a device's piece begins, where it puts the one it gets.
        table = np.zeros((COUNT, len(rounds), 2 * rank + 3), int)
        for k, batch in enumerate(rounds):
            for target, source, box, part in batch:
                first, place = ((box - at)[:, 0] for at in (have[source], want[target]))
                table[source, k, : rank + 1] = *first, part.start
                table[target, k, rank + 1 :] = *place, part.start, 1
        own = by_rank(table)
        for k, batch in enumerate(rounds):
            result = move(result, given, batch, own[k])
        x, have = result, want
    return result


def batches(pieces: list[SharedPiece]) -> list[list[SharedPiece]]:
    """Group pieces into rounds of one form: each device sends and gets at most one."""
    rounds: dict[Any, list[SharedPiece]] = {}
    for piece in pieces:
        form = (*lengths(piece.box), length(piece), piece.source == piece.target)
        for turn in range(len(pieces)):
            batch = rounds.setdefault((*form, turn), [])
            sources, targets = {m.source for m in batch}, {m.target for m in batch}
            if piece.source not in sources and piece.target not in targets:
                batch.append(piece)
                break
    return list(rounds.values())


def length(piece: SharedPiece) -> int:
    """Count the elements of a piece."""
    return int(piece.part.stop - piece.part.start)


def move(
    result: jax.Array, x: jax.Array, batch: list[SharedPiece], own: jax.Array
) -> jax.Array:
    """Carry out one round as one permutation; `own` says what a device sends and gets."""
    shape, rank = lengths(batch[0].box), x.ndim
    row = lax.dynamic_slice(x, own[:rank], shape).reshape(-1)
    row = lax.dynamic_slice(row, own[rank : rank + 1], [length(batch[0])])
    if batch[0].source != batch[0].target:
        row = lax.ppermute(row, tuple(MESH), [(m.source, m.target) for m in batch])
    at, first = own[rank + 1 : -2], own[-2:-1]
    place = lax.dynamic_slice(result, at, shape).reshape(-1)
    place = lax.dynamic_update_slice(place, row, first)
    changed = lax.dynamic_update_slice(result, place.reshape(shape), at)
    return lax.select(own[-1] > 0, changed, result)
