"""Exchanges of pieces as rounds of permutations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import by_rank, room
from tapestry.teg.exporters.spmd.runtime.mesh import COUNT, MESH, Dims, boxes, lengths
from tapestry.teg.exporters.spmd.runtime.transfers import transfers


def exchange(x: jax.Array, held: Dims, needed: Dims) -> jax.Array:
    """Fetch each device's part piece by piece: rounds of one turn and one shape."""
    moves, have, want = transfers(held, needed), boxes(held), boxes(needed)
    rounds: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for source, target in np.argwhere(
        np.prod(np.diff(moves), axis=(2, 3)) > 0
    ).tolist():
        form = ((source - target) % COUNT, *lengths(moves[source, target]))
        rounds.setdefault(form, []).append((source, target))
    # For each round: where a device's piece begins, where it puts the one it gets, if any.
    rank = x.ndim
    table = np.zeros((COUNT, len(rounds), 2 * rank + 1), int)
    for k, pairs in enumerate(rounds.values()):
        s, t = np.transpose(pairs)
        table[s, k, :rank] = (moves[s, t] - have[s])[..., 0]
        table[t, k, rank:-1] = (moves[s, t] - want[t])[..., 0]
        table[t, k, -1] = 1
    own, result = by_rank(table), jnp.zeros(room(needed), x.dtype)
    for k, ((turn, *shape), pairs) in enumerate(rounds.items()):
        piece = lax.dynamic_slice(x, own[k, :rank], shape)
        if turn:
            piece = lax.ppermute(piece, tuple(MESH), pairs)
        changed = lax.dynamic_update_slice(result, piece, own[k, rank:-1])
        result = lax.select(own[k, -1] > 0, changed, result)
    return result
