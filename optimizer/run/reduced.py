"""Programs whose gradients are reduced in every round, as starts of a search where memory counts.

Between `variants` and `starts`. They are begun after those in rounds and pipelines, of what is best so far.
"""

from __future__ import annotations

from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Variant, keeps_pins, structure_of
from tapestry.optimizer.structure.reductions import reductions
from tapestry.rewrites.sharding.waypoints import WAYPOINT
from tapestry.teg.stopping import CheckStop

REDUCING = "reducing"


def begin_reducing(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Put waypoints behind the sums that rounds accumulate, in the best program without stages and the best with some;
    those programs are begun next.
    """
    structural = state.structural
    if not state.counts_memory or WAYPOINT not in structural.applied:
        return []
    following = []
    for is_staged in (False, True):
        check_stop()
        best = _best(state, is_staged)
        if best is None or best.submesh.rounds is None:
            continue
        moves = reductions(best.graph, best.submesh.rounds)
        made = structural.rewritten(best.graph, *moves) if moves else None
        if made is None or not keeps_pins(made.graph, state.options.pins):
            continue
        key = structure_of(made.graph)
        if key not in structural.known:
            structural.known.add(key)
            number = next(k for k, submesh in enumerate(state.submeshes) if submesh is best.submesh)
            following.append(SearchStart("reduced", number, (*best.moves, *made.moves)))
    state.insert_next(start, following)
    return []


def _best(state: SearchState, is_staged: bool) -> Variant | None:
    """Return the variant in rounds on several devices, with stages or without, that has most of the front, if any."""
    found = [
        (share, v)
        for v, share in zip(state.variants, state.shares(), strict=True)
        if v.submesh.rounds is not None
        and (v.submesh.stages is not None) == is_staged
        and v.space.mesh_shape.device_count > 1
        and share
    ]
    return max(found, key=lambda pair: pair[0], default=(0, None))[1]
