"""Ablation of a finished plan: a step of its history is left out, together with the later steps that build on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tapestry.optimizer.analysis.plan_costs import State
from tapestry.optimizer.placement.propagation import propagate_placements
from tapestry.rewrites import Move, RuleError, StaleMove, is_structural, replay_plan
from tapestry.rewrites.placement import PLAN_WIDE
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import PLAN_OPTIONS, Placements
from tapestry.teg.sharding.rounds import can_run_in
from tapestry.teg.sharding.stages import StageLayout

# Placement rules that look at other blocks than the one they place.
READING_OTHERS = frozenset({"follow"})


class Ablation(NamedTuple):
    """The rest of a plan after ablation, and the later moves that were left out too, in whole or at some places."""

    state: State
    gone_with: tuple[int, ...]


def ablate(
    before: State,
    moves: Sequence[Move],
    rest: Sequence[tuple[int, Move]],
    finished: State,
    mesh_shape: MeshShape,
) -> Ablation:
    """Remove these moves from the finished plan; `rest` are the moves after them, with their numbers in the history.

    A later move builds on them where it does not fit without them, or places a block that is another one then.
    Restored blocks, for which nothing was decided, are placed as their neighbors are.
    """
    later = [move for _, move in rest]
    if not any(is_structural(m) for m in (*moves, *later)) and not any(
        m.rule in READING_OTHERS for m in later
    ):
        return Ablation((finished[0], _undone(before[1], moves, later, finished, mesh_shape)), ())
    graph, placements, gone = before[0], before[1], list[int]()
    for number, move in rest:
        (graph, placements), is_whole = _made((graph, placements), move, finished[0], mesh_shape)
        if not is_whole:
            gone.append(number)
    placements = _legal(graph, placements, mesh_shape)
    open_ = {
        block.site
        for block in graph.blocks
        if block.site not in placements.blocks
        and (block.site not in finished[0].by_site or block.site in finished[1].blocks)
    }
    return Ablation((graph, propagate_placements(graph, placements, open_, mesh_shape)), tuple(gone))


def _made(state: State, move: Move, finished: Graph, mesh_shape: MeshShape) -> tuple[State, bool]:
    """Apply a move at the places where it keeps its meaning; return the state, and whether these are all its places."""
    graph, placements = state
    is_placing = not is_structural(move) and move.rule not in PLAN_WIDE
    places = [p for p in move.places if not is_placing or _is_the_same(p, graph, finished)]
    if len(places) == len(move.places):
        try:
            return replay_plan(graph, [move], mesh_shape, placements=placements), True
        except (StaleMove, RuleError):
            pass
    is_whole = len(places) == len(move.places)
    for place in places:
        try:
            graph, placements = replay_plan(
                graph, [replace(move, place=place)], mesh_shape, placements=placements
            )
        except (StaleMove, RuleError):
            is_whole = False
    return (graph, placements), is_whole


def _is_the_same(site: str, graph: Graph, finished: Graph) -> bool:
    """Return whether a block has the index space that it has in the finished plan, if it is there."""
    here, there = graph.by_site.get(site), finished.by_site.get(site)
    return here is not None and (there is None or here.signature == there.signature)


def _legal(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> Placements:
    """Remove the placements that are not legal for this graph."""
    placements = _staged(placements, mesh_shape)
    if not check_placements(graph, placements, mesh_shape):
        return placements
    if placements.rounds is not None and not can_run_in(graph, placements.rounds):
        placements = replace(placements, rounds=None)
    kept = {
        site: placement
        for site, placement in placements.blocks.items()
        if not check_placements(graph, replace(placements, blocks={site: placement}), mesh_shape)
    }
    return replace(placements, blocks=kept)


def _undone(
    before: Placements, moves: Sequence[Move], rest: Sequence[Move], finished: State, mesh_shape: MeshShape
) -> Placements:
    """Restore the finished placements that `moves` touched as in `before`, then apply what `rest` changes there."""
    options = {name for m in moves if m.rule in PLAN_WIDE for name in m.places}
    members = [PLAN_OPTIONS[name] for name in options]
    sites = {site for m in moves if m.rule not in PLAN_WIDE for site in m.places}
    blocks = {site: p for site, p in finished[1].blocks.items() if site not in sites}
    blocks.update({site: p for site, p in before.blocks.items() if site in sites})
    changed: dict[str, Any] = {member: getattr(before, member) for member in members}
    again = []
    for move in rest:
        places = tuple(p for p in move.places if p in (options if move.rule in PLAN_WIDE else sites))
        if places:
            again.append(replace(move, place=places))
    start = replace(finished[1], blocks=blocks, **changed)
    return _staged(
        replay_plan(finished[0], again, mesh_shape, placements=_staged(start, mesh_shape))[1], mesh_shape
    )


def _staged(placements: Placements, mesh_shape: MeshShape) -> Placements:
    """Remove stages for which there is no room, and from blocks the parts of a pipeline that is not there."""
    if placements.stages is not None:
        try:
            StageLayout(mesh_shape, mesh_shape.part(placements.devices), placements.stages.count)
            return placements
        except ValueError:
            placements = replace(placements, stages=None)
    if not any(p.part for p in placements.blocks.values()):
        return placements
    return replace(placements, blocks={site: replace(p, part=0) for site, p in placements.blocks.items()})
