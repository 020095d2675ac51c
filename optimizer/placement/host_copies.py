"""Plans that use the host: state that begins there, and copies to and from it in time.

Copies begin as early as their values are there, and end just before what comes back is read. Imported by `run`.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.plan_space import Genes, PlanSpace
from tapestry.teg.sharding.host import HOST

LARGEST_DISTANCE = 127  # of a prefetch, as archives keep it


def with_state_on_host(space: PlanSpace, strategies: np.ndarray) -> np.ndarray:
    """Return strategies `(genes,)` with all state on the host that may begin there, split as before."""
    found = strategies.copy()
    for g, family in enumerate(space.families[len(space.slots) :], start=len(space.slots)):
        places = [k for k, orders in enumerate(family.dimension_orders) if orders.makes == (HOST,)]
        if places:
            count = len(family.dimension_orders)
            found[g] = int(found[g]) // count * count + places[0]
    return space.with_state(found)


def in_time(space: PlanSpace, genes: Genes, slowness: float = 1.0) -> Genes:
    """Return a plan whose copies to and from the host are issued so that blocks hide them, as far as they can.

    The clocks are those of a plan without waits, whose blocks take `slowness` times as long. Its other copies are
    issued when they were.
    """
    space.evaluate(genes)
    arrays, state = space.space, space.state
    to_host = (state.copy_queues >> arrays.communication_queues) & 1 > 0
    from_host = (state.copy_queues >> (arrays.communication_queues + 1)) & 1 > 0
    begins = np.concatenate([[0], slowness * np.cumsum(state.slot_ticks)])
    prefetch = genes.prefetch.copy()
    made_at, free = arrays.made_at[arrays.edge_tensor], np.inf
    for e in sorted(_issued(space), key=lambda e: -int(arrays.edge_slot[e])):
        k = int(arrays.edge_slot[e])
        if to_host[e]:
            prefetch[e] = k - 1 - made_at[e]
        elif from_host[e]:
            free = min(free, begins[k]) - int(state.copy_ticks[e])
            prefetch[e] = k - max(int(np.searchsorted(begins, free, side="right")) - 1, 0)
    return Genes(genes.strategies, np.clip(prefetch, 0, LARGEST_DISTANCE), genes.regather)


def _issued(space: PlanSpace) -> list[int]:
    """Return the edges that make copies of the plan costed last, within their stages."""
    arrays, state = space.space, space.state
    found = []
    for slot in range(arrays.slot_count):
        edge = int(state.first_due[slot])
        while edge >= 0:
            found.append(edge)
            edge = int(state.next_due[edge])
    return found
