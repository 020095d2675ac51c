"""The parts of a search, of which a benchmark leaves out one at a time to measure what it is worth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tapestry.optimizer.placement.variation import RULES


@dataclass(frozen=True)
class SearchParts:
    """The parts that a search has: all of them, except in a benchmark (`benchmarks.search`).

    `propagation`, `exact` and `presearch` are about the first plans, `exact` also about those of rewritten graphs;
    `views` about groupings of the mesh other than the finest, `schedule_orders` about orders other than the program's,
    `recomputation` about programs that compute values again, `offloading` about values and state on the host,
    `reduction` about gradients that are reduced in every round, `micro_batches` about plans in rounds beside others,
    `pipelines` about plans with stages. `structure` are structural moves between rounds, `placement` the epochs of the
    islands, `diversification` those apart once the front stands still, and `left_out` names placement moves
    (`optimizer.placement.variation.RULES`) that
    they do without. `learning` is the choice of placement moves by what they brought.
    """

    propagation: bool = True
    exact: bool = True
    presearch: bool = True
    recomputation: bool = True
    offloading: bool = True
    reduction: bool = True
    views: bool = True
    schedule_orders: bool = True
    micro_batches: bool = True
    pipelines: bool = True
    structure: bool = True
    placement: bool = True
    diversification: bool = True
    learning: bool = True
    left_out: tuple[str, ...] = ()

    def shares(self, shares: np.ndarray) -> np.ndarray:
        """Return the shares of places `(kinds, classes)` of placement moves, with none for the moves left out."""
        kept = np.array([name not in self.left_out for name in RULES])
        return np.asarray(np.where(kept[:, None], shares, 0.0))


ALL_PARTS = SearchParts()
