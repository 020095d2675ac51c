"""Programs that compute values again instead of storing them, as starts of a search where memory counts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapestry.costmodel.unsharded import UnshardedCosts
from tapestry.optimizer.run.descendants import descendant
from tapestry.optimizer.run.pipelines import in_turn, pipeline_starts
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import Begun, Child, Variant, keeps_pins, structure_of
from tapestry.optimizer.structure.recomputation import IN_STAGES, STRIDES, Recomputed, recomputations
from tapestry.rewrites import Move
from tapestry.rewrites.repetition.recomputation import POSTPONE, RECOMPUTE
from tapestry.teg.stopping import CheckStop

# Programs with which a search begins that compute values again.
MOST_RECOMPUTED = 3
OFFLOADING = "offloading"
RECOMPUTATIONS = ("recomputation", "recomputation of the best")


def begin_recomputation(
    state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop
) -> Begun:
    """Find what of a program may be computed again instead of stored; those programs are begun next.

    The program is the first, or the best one so far. The one of least memory is begun in rounds, too.
    """
    if not state.counts_memory or not {RECOMPUTE, POSTPONE} <= state.structural.applied.keys():
        return []
    best = state.variants[0] if start.kind == RECOMPUTATIONS[0] else _best(state, start.submesh)
    if start.kind == RECOMPUTATIONS[0] or best.moves != state.variants[0].moves:
        _put_in_turn(state, start, *_new_programs(state, start, best, check_stop))
    return []


def _new_programs(
    state: SearchState, start: SearchStart, best: Variant, check_stop: CheckStop
) -> tuple[list[tuple[Move, ...]], list[tuple[Move, ...]]]:
    """Return the moves to programs that compute values of `best` again, the last ones storing least: the new ones of a
    few, and those for pipelines.
    """
    whole, structural = state.submeshes[start.submesh], state.structural
    costs = UnshardedCosts(state.criteria.device, state.options.compute_dtype)
    strides = STRIDES if whole.stages is None else IN_STAGES
    found = _rewritten(state, best, _few(recomputations(best.graph, costs, strides)), check_stop)
    in_stages = found
    if whole.stages is None and pipeline_starts(state, ()):
        ways = recomputations(best.graph, costs, IN_STAGES)
        in_stages = _rewritten(state, best, ways[-1:], check_stop)
    new = {key: moves for key, moves in (found | in_stages).items() if key not in structural.known}
    histories, least = ([moves for key, moves in each.items() if key in new] for each in (found, in_stages))
    structural.known.update(new)
    return histories, least


def _put_in_turn(
    state: SearchState,
    start: SearchStart,
    histories: Sequence[tuple[Move, ...]],
    in_stages: Sequence[tuple[Move, ...]],
) -> None:
    """Put programs that compute again behind a start: in one round, what may wait on the host, then in rounds and
    pipelines in turn.
    """
    whole = state.submeshes[start.submesh]
    rounds = [
        k
        for k, m in enumerate(state.submeshes)
        if m.devices == whole.devices and m.stages is None and m.rounds != whole.rounds
    ]
    following = [SearchStart("recomputed", start.submesh, moves) for moves in reversed(histories)]
    state.insert_next(start, following)
    # What may wait on the host comes between, for it pays in one round already.
    last = next((s for s in state.starts if s.kind == OFFLOADING), [start, *following][-1])
    in_rounds = [SearchStart("micro_batches", k, moves) for moves in histories[-1:] for k in rounds]
    pipelines = [other for moves in in_stages[-1:] for other in pipeline_starts(state, moves)]
    state.insert_next(last, in_turn(in_rounds, [p for p in pipelines if p.submesh != start.submesh]))


def _rewritten(
    state: SearchState, best: Variant, ways: Sequence[Recomputed], check_stop: CheckStop
) -> dict[str, tuple[Move, ...]]:
    """Return the moves, from the program of the search on, to programs that compute values of `best` again.

    They are by their structure: the order of the blocks of a program counts, too.
    """
    found: dict[str, tuple[Move, ...]] = {}
    for each in ways:
        check_stop()
        made = state.structural.rewritten(best.graph, *each.moves)
        if made is not None and keeps_pins(made.graph, state.options.pins):
            found[structure_of(made.graph)] = (*best.moves, *made.moves)
    return found


def begin_recomputed(
    state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop
) -> Begun:
    """Compile a program that computes values again, and insert its first plans: its own, and those of the best one."""
    parent, graph = _best(state, start.submesh), state.graph_of(start.moves)
    made = descendant(state, parent, start.submesh, graph, start.moves, limit, check_stop)
    return [] if made is None else [Child(made, state.structural.rule_behind(start.moves))]


def _best(state: SearchState, submesh: int) -> Variant:
    """Return the variant with the most of the front of those that store everything, in the rounds of a submesh."""
    whole = state.submeshes[submesh]
    shares = zip(state.variants, state.shares(), strict=True)
    found = [
        (share, v)
        for v, share in shares
        if (v.submesh.devices, v.submesh.rounds) == (whole.devices, whole.rounds)
        and not any(move.rule == RECOMPUTE for move in v.moves)
    ]
    return max(found, key=lambda pair: pair[0], default=(0, state.variants[0]))[1]


def _few(ways: Sequence[Recomputed]) -> list[Recomputed]:
    """Select a few ways to compute values again, evenly over the logarithm of their memory, the least included."""
    if not ways:
        return []
    sizes = np.log([way.peak_bytes for way in ways])
    wanted = np.linspace(sizes[0], sizes[-1], MOST_RECOMPUTED)
    return [ways[k] for k in sorted({int(np.argmin(abs(sizes - size))) for size in wanted})]
