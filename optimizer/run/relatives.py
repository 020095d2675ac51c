"""Plans of related programs: of other sizes or another depth, or for another mesh; they are planted by names of sites.

Between `planting` and `starts`. A search begins with them as with seeds: what does not fit is left out, and nothing is
an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tapestry.hardware.timing.units import OutOfRange
from tapestry.optimizer.run.first_plans import insert_abstract
from tapestry.optimizer.run.planting import PLACED, seed_plans, submesh_of
from tapestry.optimizer.run.state import SearchStart, SearchState
from tapestry.optimizer.run.variants import (
    Begun,
    Child,
    empty_archive,
    keeps_pins,
    new_variant,
    structure_of,
)
from tapestry.rewrites import Move, RuleError, find_tied
from tapestry.teg.family import site_pattern
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.rounds import RoundsError
from tapestry.teg.sharding.turns import ScheduleError
from tapestry.teg.stopping import CheckStop

# The structures of related programs, each on a part of the mesh, that become starts: those with most plans first.
MOST_STARTS = 3
History = tuple[Move, ...]


class RelatedPlan(NamedTuple):
    """A plan of a related program: the moves that made it, and its placements, by the sites of that program."""

    moves: History
    placements: Placements


def plant(state: SearchState, relatives: Sequence[RelatedPlan]) -> int:
    """Plant plans of related programs in the first variant, and begin next with their structures; return how many."""
    groups: dict[tuple[History, int], list[Placements]] = {}
    simplifying = {rule.name for rule in state.structural.saturating}
    for moves, placements in relatives:
        history = tuple(move for move in moves if move.rule not in PLACED and move.rule not in simplifying)
        groups.setdefault((history, submesh_of(state, placements)), []).append(placements)
    first, whole = state.variants[0], [p for (_, k), plans in groups.items() if k == 0 for p in plans]
    if whole:
        seed_plans(state, first, [_named_alike(first.graph, placements) for placements in whole])
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    further = [SearchStart("relative", k, history, tuple(p)) for (history, k), p in ordered if history or k]
    for start in reversed(further[:MOST_STARTS]):
        # Where there are no moves to make, the variant of that part of the mesh is begun before.
        own = SearchStart("program", start.submesh, first.moves)
        at = 0 if start.moves or own not in state.starts else state.starts.index(own) + 1
        state.starts.insert(at, start)
    return len(whole) + sum(len(start.plans) for start in further[:MOST_STARTS] if start.submesh)


def begin_relative(state: SearchState, start: SearchStart, limit: int | None, check_stop: CheckStop) -> Begun:
    """Make a related program's moves again, at places of the same names but for numbers of layers; plant its plans."""
    first, submesh = state.variants[0], state.submeshes[start.submesh]
    graph, moves = _rewritten(state, start.moves, check_stop)
    if not keeps_pins(graph, state.options.pins):
        graph, moves = first.graph, first.moves
    plans = start.plans if limit is None else start.plans[: max(0, limit - state.evaluations)]
    structure = structure_of(graph)
    known = next((v for v in state.variants if v.submesh is submesh and v.structure == structure), None)
    if known is None:
        try:
            variant = new_variant(state.new_number(), submesh, graph, moves, state.options, check_stop)
        except (
            OutOfRange,
            RoundsError,
            ScheduleError,
        ):  # it cannot be counted, or cannot run in these rounds
            return []
        state.evaluations += sum(insert_abstract(variant))
    else:  # islands work with its archive
        variant = replace(known, archive=empty_archive(submesh.goal, known.space))
    check_stop()
    if plans:
        seed_plans(state, variant, [_named_alike(graph, placements) for placements in plans])
    return [Child(variant, moves[-1].rule if moves != first.moves else "")]


def _rewritten(state: SearchState, history: History, check_stop: CheckStop) -> tuple[Graph, History]:
    """Make the moves of a related program, as far as there are places for them."""
    first = state.variants[0]
    graph, moves = first.graph, first.moves
    rules = {rule.name: rule for rule in state.structural.endless}
    for wanted in history:
        check_stop()
        if wanted.rule not in rules:
            continue
        patterns = {site_pattern(place) for place in wanted.places}
        try:
            offered = find_tied(graph, [rules[wanted.rule]])
        except RuleError as error:
            state.structural.refuse(error.rule, error.reason)
            continue
        for move in offered:
            if move.choice == wanted.choice and site_pattern(move.places[0]) in patterns:
                after = state.structural.rewritten(graph, move)
                if after is not None:
                    graph, moves = after.graph, (*moves, *after.moves)
                break
    return graph, moves


def _named_alike(graph: Graph, placements: Placements) -> Placements:
    """Return placements for a program's blocks: those of the same site, else of a site with the same pattern."""
    alike = {site_pattern(site): placement for site, placement in reversed(list(placements.blocks.items()))}
    blocks = {}
    for block in graph.blocks:
        found = placements.blocks.get(block.site) or alike.get(site_pattern(block.site))
        if found is not None:
            blocks[block.site] = found
    return replace(placements, blocks=blocks)
