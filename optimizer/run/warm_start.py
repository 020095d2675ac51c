"""Warm start from plans of an earlier search, perhaps for another mesh or other objectives."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.costmodel.strategies import PinError
from tapestry.hardware.timing.units import OutOfRange
from tapestry.optimizer.run.plan import Plan
from tapestry.optimizer.run.planting import PLACED, seed_plans, submesh_of
from tapestry.optimizer.run.starts import begin
from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import (
    LARGEST_VARIANTS,
    Variant,
    keeps_pins,
    new_variant,
    structure_of,
)
from tapestry.rewrites import Move, RuleError, StaleMove, replay
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.rounds import RoundsError, can_run_in
from tapestry.teg.sharding.turns import ScheduleError
from tapestry.teg.stopping import CheckStop, never_stop

# The plans of one history of structural moves on one machine, by the machine's number.
Groups = dict[tuple[tuple[Move, ...], int], list[Plan]]


def start_from_plans(state: SearchState, plans: Sequence[Plan], check_stop: CheckStop = never_stop) -> None:
    """Start from plans of the same program; rewritten graphs join the variants, those with most plans first.

    The views of the mesh are ranked before, however many evaluations the search may spend.

    A placement that this mesh does not have is replaced by the nearest one that it has; plans of a graph that may not
    join (too many, a rule that was not chosen, a pinned block that is gone) are mapped by site onto the simplified one.

    Raises:
        ValueError: none of the plans is of this program.
    """
    for start in [start for start in state.starts if start.kind == "views"]:
        begin(state, start, None, check_stop)
    graphs: dict[tuple[Move, ...], Graph | None] = {}
    groups: Groups = {}
    for plan in plans:
        check_stop()
        moves = tuple(move for move in plan.moves if move.rule not in PLACED)
        if moves not in graphs:
            graphs[moves] = _replayed(state.graph, moves)
        replayed = graphs[moves]
        if replayed is not None and replayed.structural_hash == plan.graph.structural_hash:
            groups.setdefault((moves, submesh_of(state, plan.placements)), []).append(plan)
    if not groups:
        raise ValueError(
            f"start_from: none of the {len(plans)} plans is of the program {state.graph.name!r}; "
            "give plans that were found for this very graph"
        )
    joined = 0
    for (moves, k), group in sorted(groups.items(), key=lambda item: -len(item[1])):
        variant = _variant(state, k, graphs[moves], moves, joined < LARGEST_VARIANTS, check_stop)
        if all(variant is not known for known in state.variants):
            joined += variant.graph is not state.variants[0].graph
            state.variants.append(variant)
            state.starts = [s for s in state.starts if (s.submesh, s.moves) != (k, variant.moves)]
            state.structural.known.add(variant.graph.structural_hash)
        state.started_from += seed_plans(state, variant, [plan.placements for plan in group])


def _replayed(graph: Graph, moves: Sequence[Move]) -> Graph | None:
    try:
        return replay(graph, moves)
    except (StaleMove, RuleError):
        return None


def _variant(
    state: SearchState,
    k: int,
    graph: Graph | None,
    moves: tuple[Move, ...],
    may_join: bool,
    check_stop: CheckStop,
) -> Variant:
    """Return the variant for a group of plans on a submesh: one of equal structure or a new one.

    A program that may not join is replaced by the simplified one.
    """
    assert graph is not None
    submesh, first = state.submeshes[k], state.variants[0]
    chosen, structure = {rule.name for rule in state.structural.rules}, structure_of(graph)
    is_allowed = {m.rule for m in moves} <= chosen and keeps_pins(graph, state.options.pins)
    is_allowed = is_allowed and (submesh.rounds is None or can_run_in(graph, submesh.rounds))
    if structure == first.structure or not (may_join and is_allowed):
        graph, moves, structure = first.graph, first.moves, first.structure
    for variant in state.variants:
        if variant.submesh is submesh and variant.structure == structure:
            return variant
    try:
        return new_variant(state.new_number(), submesh, graph, moves, state.options, check_stop)
    except (OutOfRange, PinError, RoundsError, ScheduleError):
        if (submesh.rounds, submesh.stages) == (first.submesh.rounds, first.submesh.stages):
            raise
        return first  # without the rounds or stages of the plans, which this program or its pins do not allow
