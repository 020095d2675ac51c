"""The sets of readers whose copies of one tensor may serve each other, for `additive.py`."""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.kernel_arrays import SPEC, CompiledSpace


def sharing_sets(space: CompiledSpace) -> np.ndarray:
    """Number the sets of edges whose copies of one tensor may serve each other.

    Returns: the number of each edge's set `(edges,)`, in the order of tensors and their readers.
    """
    found, known = np.arange(len(space.reader_edge)), dict[tuple[int, ...], np.ndarray]()
    for t in np.flatnonzero(np.diff(space.reader_start) > 1):
        first, last = int(space.reader_start[t]), int(space.reader_start[t + 1])
        edges = space.reader_edge[first:last]
        key = (int(space.inside_offset[t]), *space.edge_needed[edges].tolist())
        if key not in known:
            known[key] = _first_sharing(space, int(t), edges)
        found[first:last] = first + known[key]
    return np.unique(found, return_inverse=True)[1]


def _first_sharing(space: CompiledSpace, t: int, edges: np.ndarray) -> np.ndarray:
    """Return for each reader of a tensor the first one of its set, `(readers,)`.

    Two share copies where a spec that one may need holds one that the other may need, or both do with a third.
    """
    holds, first = holding_specs(space, t), np.arange(len(edges))
    needs = np.zeros((len(edges), len(holds)), np.float32)
    for k, e in enumerate(edges):
        values = np.arange(space.strategy_count[space.edge_slot[e]])
        needs[k, space.spec_ids[space.edge_needed[e] + values, SPEC]] = 1
    serves = needs @ holds.astype(np.float32) @ needs.T > 0
    shares = serves | serves.T
    for k in range(len(edges)):
        for j in np.flatnonzero(shares[k, :k]):
            first[first == first[k]] = first[j]
    return first


def holding_specs(space: CompiledSpace, t: int) -> np.ndarray:
    """Return whether a copy of a tensor in one needed spec holds what another one needs, `(held, needed)`."""
    specs, start = int(space.needed_specs[t]), int(space.inside_offset[t])
    return space.inside[start : start + specs * specs].reshape(specs, specs)
