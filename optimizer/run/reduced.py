"""Programs whose gradients are reduced in every round, as starts of a search where memory counts.

Between `variants` and `starts`. They are begun after those in rounds and pipelines, of what is best so far.
"""

from __future__ import annotations

import numpy as np

from tapestry.costmodel.kernel_arrays import PEAK, PLACED
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Variant, keeps_pins, structure_of
from tapestry.optimizer.structure.reductions import reductions
from tapestry.rewrites.sharding.waypoints import WAYPOINT
from tapestry.teg.stopping import CheckStop

REDUCING = "reducing"
LEAST_SAVED = 0.05  # of a plan's peak: what is begun may save so much of it


def begin_reducing(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Put waypoints behind the sums that rounds accumulate in the best program that has none yet; it is begun next."""
    structural = state.structural
    if not state.counts_memory or WAYPOINT not in structural.applied:
        return []
    for best in _in_rounds(state):
        check_stop()
        assert best.submesh.rounds is not None
        moves = reductions(best.graph, best.submesh.rounds)
        made = structural.rewritten(best.graph, *moves) if moves else None
        key = "" if made is None else structure_of(made.graph)
        if made is None or key in structural.known or not keeps_pins(made.graph, state.options.pins):
            continue
        structural.known.add(key)
        number = next(k for k, submesh in enumerate(state.submeshes) if submesh is best.submesh)
        state.insert_next(start, [SearchStart("reduced", number, (*best.moves, *made.moves))])
        break
    return []


def _in_rounds(state: SearchState) -> list[Variant]:
    """Return the variants in rounds that hold plans of the front, those first whose plans would save most memory."""
    found = [
        (_saved_share(v), v)
        for v, share in zip(state.variants, state.shares(), strict=True)
        if share and v.submesh.rounds is not None
    ]
    return [v for saved, v in sorted(found, key=lambda pair: -pair[0]) if saved >= LEAST_SAVED]


def _saved_share(variant: Variant) -> float:
    """Return the most of a plan's peak that its sums over rounds take beyond what an even part of them would."""
    space, archive, time = variant.space, variant.archive, variant.space.time
    assert time is not None
    arrays, plans = space.space, slice(0, int(archive.size[0]))
    extra = np.zeros(plans.stop, dtype=np.int64)
    for block in space.slots:
        if time.monoid_of(block) and block.operator != "waypoint":
            g = space.gene_of[block.site]
            t = arrays.made_tensor[arrays.made_start[g]]
            made = arrays.spec_ids[arrays.made_offset[t] + archive.genes[plans, g].astype(np.int64), PLACED]
            held = arrays.size_rows[arrays.made_bytes_offset[t] + made].max(axis=1)
            extra += held - arrays.logical_bytes[t] // space.mesh_shape.device_count
    return float((extra / archive.raw[plans, PEAK]).max(initial=0.0))
