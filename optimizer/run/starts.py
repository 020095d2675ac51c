"""Starts: the programs and views that a search begins with beside its first one, one in each of its first rounds.

They are the parts of the mesh, its other views, schedule orders and numbers of rounds, the program as it was given,
and the best of many rewritten programs. While the coordinator prepares one, the islands search those that there are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import numpy as np

from tapestry.hardware.timing.units import OutOfRange
from tapestry.optimizer.run.descendants import begin_rewritten
from tapestry.optimizer.run.first_plans import insert_abstract, insert_exact, insert_seeds
from tapestry.optimizer.run.micro_batches import begin_micro_batches
from tapestry.optimizer.run.offloaded import begin_offloading
from tapestry.optimizer.run.pipelines import begin_stages, in_turn, pipeline_starts
from tapestry.optimizer.run.recomputed import (
    OFFLOADING,
    RECOMPUTATIONS,
    begin_recomputation,
    begin_recomputed,
)
from tapestry.optimizer.run.reduced import REDUCING, begin_reducing
from tapestry.optimizer.run.relatives import begin_relative
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import (
    Begun,
    Child,
    Variant,
    empty_archive,
    new_variant,
)
from tapestry.optimizer.run.view_choice import has_views, ranked_views
from tapestry.optimizer.structure.evaluation import EvaluatedGraph
from tapestry.rewrites import Move
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import RoundsError
from tapestry.teg.sharding.turns import ScheduleError
from tapestry.teg.stopping import CheckStop

# Rewritten graphs that a search begins with: on one device, and beside what is placed on several, for which so much
# of the effort is spent and so many graphs are evaluated.
MOST_REWRITTEN, MOST_JOINING, ALONE_EFFORT, SHARED_EFFORT, MOST_EVALUATED = 12, 2, 10.0, 0.2, 160

Begin = Callable[[SearchState, SearchStart, int | None, CheckStop], Begun]


def first_starts(state: SearchState) -> list[SearchStart]:
    """Return the starts of a search that has its first variant, in the order in which they are begun."""
    exact = [SearchStart("exact", 0, state.variants[0].moves)] if state.parts.exact else []
    alike, parts = _parts(state)
    again = [SearchStart(RECOMPUTATIONS[0])] if state.parts.recomputation else []
    if state.parts.offloading and state.graph.carried and state.criteria.device.has_host:
        again.append(SearchStart(OFFLOADING))
    of_parts = [part._replace(kind="exact") for part in (*alike, *parts) if exact]
    first = [*exact, *alike, *again, *parts, *of_parts]
    if state.parts.views and has_views(state.submeshes[0], state.options):
        return [*first, SearchStart("views")]
    return [*first, *_further(state, 0)]


def begin(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Begin a start; return new variants with their first plans, or a known one with further plans.

    The search evaluates at most `limit` plans in all. Where `check_stop` raises an error the start is still to begin.
    """
    before = state.evaluations
    try:
        found = KINDS[start.kind](state, start, limit, check_stop)
    except BaseException:
        state.evaluations = before
        raise
    state.starts.remove(start)
    # What may be computed again, wait on the host, or be reduced is only what to begin next: no round is spent on it.
    if start.kind in (*RECOMPUTATIONS, OFFLOADING, REDUCING) and state.starts:
        return begin(state, state.starts[0], limit, check_stop)
    return found


def _left(state: SearchState, limit: int | None) -> int | None:
    return None if limit is None else max(0, limit - state.evaluations)


def _parts(state: SearchState) -> tuple[list[SearchStart], list[SearchStart]]:
    """Return starts of the first program on the parts of the mesh, the smallest one first.

    Where devices differ, the largest part with equal ones is apart: it may be faster than the whole mesh.
    """
    whole, moves = state.submeshes[0], state.variants[0].moves
    others = (k for k, submesh in enumerate(state.submeshes) if submesh.stages is None)
    parts = [k for k in others if state.submeshes[k].devices != whole.devices]
    parts.sort(key=lambda k: state.submeshes[k].mesh.device_count)
    found = [SearchStart("program", k, moves) for k in parts]
    alike = [start for start in found if whole.mesh.nodes and not state.submeshes[start.submesh].mesh.nodes]
    return alike[-1:], [start for start in found if start not in alike[-1:]]


def _further(state: SearchState, best: int) -> list[SearchStart]:
    """Return the starts after those of the parts, where `best` is the number of the submesh with the best view."""
    whole, moves = state.submeshes[0], state.variants[0].moves
    mine = [k for k, submesh in enumerate(state.submeshes) if submesh.devices == whole.devices]
    orders = [k for k in mine if state.submeshes[k].schedule_order != whole.schedule_order]
    others = [SearchStart("program", k, moves) for k in orders]
    if moves:
        others.append(SearchStart("program", best))
    rounds = [
        SearchStart("micro_batches", k, moves)
        for k in mine
        if state.submeshes[k].stages is None and state.submeshes[k].rounds != whole.rounds
    ]
    kept = (0, best, *orders, *(start.submesh for start in rounds))
    alike = (
        k
        for k in mine
        if (state.submeshes[k].rounds, state.submeshes[k].stages) == (whole.rounds, whole.stages)
    )
    views = [SearchStart("view", k, moves) for k in alike if k not in kept]
    first = [SearchStart("program", best, moves)] if best else []
    presearch = [SearchStart("presearch", best)] if state.parts.presearch else []
    again = [SearchStart(RECOMPUTATIONS[1], best)] if state.parts.recomputation else []
    staged = pipeline_starts(state, moves)
    in_rounds = in_turn(staged, rounds)
    has_sums = state.parts.reduction and (in_rounds or whole.rounds is not None)
    reducing = [SearchStart(REDUCING)] if has_sums else []
    return [*first, *presearch, *others, *again, *in_rounds, *reducing, *views]


def _begin_views(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Rank the views of the mesh; schedule orders take the best one, and the others are left to be begun.

    What already has variants, such as those of related plans, keeps its view.
    """
    first, whole = state.variants[0], state.submeshes[0]
    views, evaluated = ranked_views(whole, first.graph, state.options, _left(state, limit), check_stop)
    state.evaluations += evaluated
    in_use = {whole, *(variant.submesh for variant in state.variants)}
    ordered = [
        replace(s, view=views[0]) if s.devices == whole.devices and s not in in_use else s
        for s in state.submeshes
    ]
    added = [whole.on_view(view) for view in views if view.axes != whole.view.axes]
    best = 0 if views[0].axes == whole.view.axes else len(ordered)
    state.submeshes = (*ordered, *added)
    state.insert_next(start, _further(state, best))
    return []


def _begin_program(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Compile a program on a submesh, and insert its first plans; exact ones may be a start of their own."""
    moves, number = start.moves, state.new_number()
    graph = state.graph_of(moves)
    with_exact = start._replace(kind="exact") not in state.starts
    try:
        variant = _placed(
            state, number, start.submesh, graph, moves, limit, check_stop, with_exact=with_exact
        )
    except (
        OutOfRange,
        RoundsError,
        ScheduleError,
    ):  # it cannot be counted, or cannot run in the search's rounds
        return []
    is_given = moves in (state.variants[0].moves, ())
    return [
        Child(
            variant,
            "" if is_given else state.structural.rule_behind(moves),
            is_given and start.kind != "view",
        )
    ]


def _begin_exact(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Find the exact plans of a variant, apart from its archive, which islands work with."""
    of, moves = state.submeshes[start.submesh], start.moves
    kept = next((v for v in state.variants if v.submesh is of and v.moves == moves and v.has_choice), None)
    if kept is None:
        return []
    apart = replace(kept, archive=empty_archive(kept.submesh.goal, kept.space))
    for count in insert_exact(apart, _left(state, limit)):
        state.evaluations += count
        check_stop()
    return [Child(apart)]


def _begin_presearch(
    state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop
) -> Begun:
    """Evaluate many rewritten graphs on one device of the mesh; return those that are the best on one device.

    On one device, be it a submesh, there is nothing to place, and that is most of the search. Where there are
    more, the evaluation ignores sharding and communication, so only a few spread over the front join the
    original program, on the whole mesh only: on every submesh they would take the evaluations of others. Those
    are begun next.
    """
    whole, structural, first = state.submeshes[start.submesh], state.structural, state.variants[0]
    is_alone = whole.mesh.device_count == 1
    evaluated = [n for n in (_left(state, limit), None if is_alone else MOST_EVALUATED) if n is not None]
    effort = ALONE_EFFORT if is_alone else SHARED_EFFORT
    ordered = {whole.schedule_order: start.submesh} | {
        submesh.schedule_order: k
        for k, submesh in enumerate(state.submeshes)
        if (submesh.devices, submesh.rounds) == (whole.devices, whole.rounds)
        and submesh.schedule_order != whole.schedule_order
    }
    presearch = structural.presearch(
        first.graph,
        first.moves,
        state.criteria,
        state.options,
        min(evaluated, default=None),
        effort,
        tuple(ordered),
    )
    until_s = time.perf_counter() + state.clock.left_s if is_alone else math.inf
    found = presearch.run(until_s, check_stop)
    state.evaluations += presearch.evaluated
    front = [s for s in found if s.graph.structural_hash not in structural.known]
    joining = _spread(front, MOST_REWRITTEN if is_alone else MOST_JOINING)
    structural.known.update(s.graph.structural_hash for s in joining)
    state.insert_next(start, [SearchStart("program", ordered[s.schedule_order], s.moves) for s in joining])
    alone = [k for k, m in enumerate(state.submeshes) if m.mesh.device_count == 1 and not is_alone]
    parts = [(k, s) for k in alone for s in _spread(front, MOST_REWRITTEN)]
    begun = []
    for k, s in parts:
        with suppress(OutOfRange, RoundsError, ScheduleError):
            variant = _placed(state, state.new_number(), k, s.graph, s.moves, limit, check_stop)
            begun.append(Child(variant, state.structural.rule_behind(s.moves)))
    return begun


def _spread(front: Sequence[EvaluatedGraph], most: int) -> list[EvaluatedGraph]:
    """Select the best graph of a front by every criterion, then others evenly along it, up to `most`."""
    if not front:
        return []
    places, last = range(len(front)), len(front) - 1
    chosen = {min(places, key=lambda i: front[i].values[k]) for k in range(len(front[0].values))}
    if len(chosen) < most:
        others = most - len(chosen - {0, last})
        chosen.update(np.linspace(0, last, min(len(front), others)).astype(int).tolist())
    return [front[k] for k in sorted(chosen)]


def _placed(
    state: SearchState,
    number: int,
    submesh: int,
    graph: Graph,
    moves: tuple[Move, ...],
    limit: int | None,
    check_stop: CheckStop,
    *,
    with_exact: bool = True,
) -> Variant:
    """Build a variant of a program on a submesh with first plans: whole tensors everywhere, seeds, exact ones."""
    variant = new_variant(number, state.submeshes[submesh], graph, moves, state.options, check_stop)
    is_given = moves in (state.variants[0].moves, ())
    state.evaluations += sum(insert_abstract(variant, is_given=is_given))
    parts = {insert_seeds: state.parts.propagation, insert_exact: state.parts.exact and with_exact}
    for insert in (insert for insert, is_part in parts.items() if is_part and variant.has_choice):
        for count in insert(variant, _left(state, limit)):
            state.evaluations += count
            check_stop()
    return variant


KINDS: Mapping[str, Begin] = {
    "exact": _begin_exact,
    "micro_batches": begin_micro_batches,
    OFFLOADING: begin_offloading,
    "offloaded": begin_rewritten,
    "presearch": _begin_presearch,
    "program": _begin_program,
    **dict.fromkeys(RECOMPUTATIONS, begin_recomputation),
    "recomputed": begin_recomputed,
    REDUCING: begin_reducing,
    "reduced": begin_rewritten,
    "relative": begin_relative,
    "stages": begin_stages,
    "view": _begin_program,
    "views": _begin_views,
}
