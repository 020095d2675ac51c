"""Exchanges of pieces as rounds of permutations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from tapestry.teg.exporters.spmd.runtime.jax_arrays import by_rank, room, starts
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
    result = jnp.zeros(room(needed), x.dtype)
    for (turn, *shape), pairs in rounds.items():
        first = {s: (moves[s, t] - have[s])[:, 0].tolist() for s, t in pairs}
        piece = lax.dynamic_slice(x, starts(first), shape)
        if turn:
            piece = lax.ppermute(piece, tuple(MESH), pairs)
        place = {t: (moves[s, t] - want[t])[:, 0].tolist() for s, t in pairs}
        changed = lax.dynamic_update_slice(result, piece, starts(place))
        result = jnp.where(by_rank(dict.fromkeys(place, 1)) == 1, changed, result)
    return result
