"""Programs whose values wait on the host, as starts of a search of a training step where memory counts.

Between `variants` and `starts`. Plans of such programs may have state on the host, too.
"""

from __future__ import annotations

from itertools import takewhile

from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Variant, keeps_pins, structure_of
from tapestry.optimizer.structure.offloading import offloads, peak_of
from tapestry.rewrites import Move, Saturated
from tapestry.rewrites.repetition.offloading import OFFLOAD
from tapestry.rewrites.repetition.recomputation import POSTPONE, RECOMPUTE
from tapestry.teg.stopping import CheckStop

# How much slower than the program the link may be: what is hidden; where nothing is computed again, nearly all.
HIDDEN, WAITING = 1.0, 8.0
# Programs that are begun at once, and in all; the others come after those that compute values again in rounds.
AT_ONCE, MOST_OFFLOADED = 1, 3
EARLY = "update-early"


def begin_offloading(
    state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop
) -> Begun:
    """Find what of programs may wait on the host instead of on the devices; those programs are begun next.

    The programs are those that compute most values again, whose states may lie on the host, too, and the first.
    """
    structural, device = state.structural, state.criteria.device
    needed = {OFFLOAD, RECOMPUTE, POSTPONE}
    if not state.counts_memory or not device.has_host or not needed <= structural.applied.keys():
        return []
    first = state.variants[0]
    if first.submesh.rounds is not None or first.submesh.stages is not None:
        return []  # what the link has time for is known of one round alone
    recomputed = [(v, HIDDEN) for v in state.variants[1:] if _is_recomputed(v, first)]
    parents = [*recomputed[: MOST_OFFLOADED - 1], (first, HIDDEN)]
    following = []
    for parent, slowness in parents if recomputed else [(first, WAITING), (first, HIDDEN)]:
        check_stop()
        made = _waiting(state, parent, slowness)
        if made is None or not keeps_pins(made.graph, state.options.pins):
            continue
        key = structure_of(made.graph)
        if key not in structural.known:
            structural.known.add(key)
            submesh = start.submesh if parent is first else _submesh(state)
            following.append(SearchStart("offloaded", submesh, (*parent.moves, *made.moves)))
    state.insert_next(start, following[:AT_ONCE])
    later = state.starts[state.starts.index(start) + 1 + AT_ONCE :]
    in_rounds = list(takewhile(lambda s: s.kind in ("micro_batches", "stages"), later))
    state.insert_next([start, *following[:AT_ONCE], *in_rounds][-1], following[AT_ONCE:])
    return []


def _waiting(state: SearchState, parent: Variant, slowness: float) -> Saturated | None:
    """Rewrite a variant's program so that values wait on the host; None where nothing may."""
    device, structural = state.criteria.device, state.structural
    costs, before = UnshardedCosts(device, state.options.compute_dtype), list[Move]()
    graph, peak = parent.graph, peak_of(parent.graph, costs)
    if peak is None:
        return None
    if peak.moves:
        moved = structural.rewritten(graph, *peak.moves)
        if moved is None:
            return None
        graph, before = moved.graph, [*moved.moves]
    moves = offloads(graph, costs, device, slowness, peak.site)
    made = structural.rewritten(graph, *moves) if moves else None
    return None if made is None else made._replace(moves=[*before, *made.moves])


def _is_recomputed(variant: Variant, first: Variant) -> bool:
    """Return whether a variant of the whole mesh computes values again, and keeps all on the devices."""
    rules = {move.rule for move in variant.moves}
    own, whole = variant.submesh, first.submesh
    return (
        RECOMPUTE in rules
        and OFFLOAD not in rules
        and (own.devices, own.rounds, own.stages) == (whole.devices, whole.rounds, whole.stages)
    )


def _submesh(state: SearchState) -> int:
    """Return the whole mesh where updates come early, if there is one: state is carried as it is updated."""
    whole = state.submeshes[0]
    return next(
        (
            k
            for k, m in enumerate(state.submeshes)
            if (m.devices, m.rounds, m.stages, m.schedule_order)
            == (whole.devices, whole.rounds, whole.stages, EARLY)
        ),
        0,
    )
