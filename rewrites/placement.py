"""Placement moves: they change where blocks compute and how inputs get there. The graph is not changed.

A placement move is a `Move` like any other: rule, place (or tied places), choice. `apply_placement` carries
one out, `placement_moves` lists the moves that lead from one plan's placements to another's, `replay_plan`
replays a history of both kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tapestry.rewrites.application import Rules
from tapestry.rewrites.apply import replay
from tapestry.rewrites.move import Move, StaleMove
from tapestry.rewrites.placement_rules import PLACEMENT, PlacementRule, PlacementSite
from tapestry.teg.faults import no_such
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.check import INPUT_OPTIONS, OUTPUT_OPTIONS, check_placements
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import (
    PLAN_OPTIONS,
    SCHEDULE_ORDERS,
    Placement,
    Placements,
    plan_options,
    with_plan_option,
)
from tapestry.teg.sharding.rounds import time_axis
from tapestry.teg.sharding.stages import StageLayout

OPTIONS: Mapping[str, tuple[str, ...]] = {
    "order": SCHEDULE_ORDERS,
    "inputs": INPUT_OPTIONS,
    "outputs": OUTPUT_OPTIONS,
}

# Moves whose place is an option of the plan, not a block.
PLAN_WIDE = frozenset({"set_option"})

_PLACING = {rule.name for rule in PLACEMENT} | PLAN_WIDE


def apply_placement(graph: Graph, placements: Placements, move: Move, mesh_shape: MeshShape) -> Placements:
    """Return the placements after a move, at each of its places.

    Raises:
        StaleMove: no such rule, block or choice, or the result is not legal on this mesh; the message gives the reason.
    """
    if move.rule in PLAN_WIDE:
        return _with_options(graph, placements, move, mesh_shape)
    rule = _rule(move)
    changed = dict(placements.blocks)
    for site in move.places:
        block = graph.by_site.get(site)
        if block is None:
            raise StaleMove(move, f"there is no block {site!r}")
        if block.is_view:
            raise StaleMove(move, f"block {site!r} is a view, which lies where its root lies")
        try:
            placement = rule.apply(PlacementSite(graph, placements, block, mesh_shape), move.choice)
        except ValueError as error:
            raise StaleMove(move, f"at {site!r}: {error}") from error
        alone = Placements({site: placement}, devices=placements.devices, stages=placements.stages)
        issues = check_placements(graph, alone, mesh_shape)
        if issues:
            raise StaleMove(move, f"at {site!r}: " + "; ".join(map(str, issues)))
        changed[site] = placement
    return replace(placements, blocks=changed)


def placement_moves(graph: Graph, before: Placements, after: Placements) -> list[Move]:
    """List the moves that lead from one plan's placements to another's; equal ones are tied into one."""
    tied: dict[tuple[str, str], list[str]] = {}
    for block in graph.blocks:
        if not block.is_view:
            for rule, choice in _differences(block, before.of(block), after.of(block)):
                tied.setdefault((rule, choice), []).append(block.site)
    moves = [Move(r, tuple(p) if len(p) > 1 else p[0], c) for (r, c), p in tied.items()]
    known = plan_options(before)
    options = [
        Move("set_option", name, new) for name, new in plan_options(after).items() if new != known[name]
    ]
    # Blocks are in parts only of a plan that has stages, each on devices of its own.
    first = [move for name in ("devices", "stages") for move in options if move.places == (name,)]
    first = first if after.stages is not None else []
    return [*first, *moves, *(move for move in options if move not in first)]


def is_structural(move: Move) -> bool:
    """Return whether a move rewrites the graph, rather than placing the existing blocks."""
    return move.rule not in _PLACING


def replay_plan(
    graph: Graph,
    moves: Iterable[Move],
    mesh_shape: MeshShape,
    rules: Rules | None = None,
    placements: Placements | None = None,
) -> tuple[Graph, Placements]:
    """Return the plan after a history of structural and placement moves, from nothing placed by default.

    Raises:
        StaleMove, RuleError: a move does not fit.
    """
    placements = Placements() if placements is None else placements
    for move in moves:
        if not is_structural(move):
            placements = apply_placement(graph, placements, move, mesh_shape)
        else:
            graph = replay(graph, [move], rules)
            placed = {site: p for site, p in placements.blocks.items() if site in graph.by_site}
            placements = replace(placements, blocks=placed)
    return graph, placements


def _rule(move: Move) -> PlacementRule:
    known = {r.name: r for r in PLACEMENT}
    if move.rule not in known:
        raise StaleMove(move, no_such("placement rule", move.rule, known))
    return known[move.rule]


def _with_options(graph: Graph, placements: Placements, move: Move, mesh_shape: MeshShape) -> Placements:
    for name in move.places:
        known = OPTIONS.get(name, () if name in PLAN_OPTIONS else None)
        if known is None or (known and move.choice not in known):
            options = "; ".join(f"{n}: {', '.join(v)}" for n, v in OPTIONS.items())
            raise StaleMove(move, f"the options of a plan are {options}; devices; micro_batches; stages")
        try:
            placements = with_plan_option(placements, name, move.choice)
            used = mesh_shape.part(placements.devices)
            if placements.stages is not None:
                StageLayout(mesh_shape, used, placements.stages.count)
            if placements.rounds is not None:
                time_axis(graph, placements.rounds)
        except ValueError as error:
            raise StaleMove(move, str(error)) from error
    return placements


def _differences(block: Block, old: Placement, new: Placement) -> Iterator[tuple[str, str]]:
    if old.part != new.part:
        yield "assign", str(new.part)
    if old.strategy != new.strategy:
        yield "reshard", str(new.strategy)
    for k in range(len(block.inputs)):
        if old.prefetch_of(k) != new.prefetch_of(k):
            yield "prefetch", f"{k}:{new.prefetch_of(k)}"
        if old.regather_of(k) != new.regather_of(k):
            yield "regather", f"{k}:{'on' if new.regather_of(k) else 'off'}"
        if old.read_layout_of(k) != new.read_layout_of(k):
            yield "read_as", f"{k}:{new.read_layout_of(k)}"
    for k in range(len(block.outputs)):
        if old.layout_of(k) != new.layout_of(k):
            yield "store_as", f"{k}:{new.layout_of(k)}"
