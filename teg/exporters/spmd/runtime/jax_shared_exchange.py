"""Exchanges in which devices near each other share what comes from afar, as rounds of permutations."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import by_rank, room, starts
from tapestry.teg.exporters.spmd.runtime.mesh import MESH, Dims, boxes, lengths
from tapestry.teg.exporters.spmd.runtime.shared_transfers import (
    SharedPiece,
    shared_transfers,
)


def shared_exchange(x: jax.Array, held: Dims, needed: Dims) -> jax.Array:
    """Fetch each device's part piece by piece, in rounds of permutations."""
    have, want = boxes(held), boxes(needed)
    result = jnp.zeros(room(needed), x.dtype)
    for pieces in shared_transfers(held, needed):
        given = x
        for batch in batches(pieces):
            result = move(result, given, batch, have, want)
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
    result: jax.Array,
    x: jax.Array,
    batch: list[SharedPiece],
    have: np.ndarray,
    want: np.ndarray,
) -> jax.Array:
    """Carry out one round of transfers as one permutation."""

    def places(moves: dict[int, SharedPiece], held: np.ndarray) -> list[jax.Array]:
        return starts({d: (m.box - held[d])[:, 0].tolist() for d, m in moves.items()})

    def first(moves: dict[int, SharedPiece]) -> list[jax.Array]:
        return [by_rank({d: m.part.start for d, m in moves.items()})]

    shape, sent = lengths(batch[0].box), {m.source: m for m in batch}
    received = {m.target: m for m in batch}
    row = lax.dynamic_slice(x, places(sent, have), shape).reshape(-1)
    row = lax.dynamic_slice(row, first(sent), [length(batch[0])])
    if batch[0].source != batch[0].target:
        row = lax.ppermute(row, tuple(MESH), [(m.source, m.target) for m in batch])
    at = places(received, want)
    place = lax.dynamic_slice(result, at, shape).reshape(-1)
    place = lax.dynamic_update_slice(place, row, first(received))
    changed = lax.dynamic_update_slice(result, place.reshape(shape), at)
    return jnp.where(by_rank(dict.fromkeys(received, 1)) == 1, changed, result)
