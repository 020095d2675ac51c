"""Plans of related programs: of other sizes or another depth, or for another mesh; they are planted by names of sites.

Between `warm_start` (plans of this very program) and `initialization`. A search begins with them as with seeds: what
does not fit is left out, and nothing is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tapestry.optimizer.run.state import SearchState
from tapestry.optimizer.run.variants import LARGEST_VARIANTS, Variant
from tapestry.optimizer.run.warm_start import PLACED, joined_variant, seed_plans, submesh_of
from tapestry.rewrites import Move, RuleError, find_tied
from tapestry.teg.family import site_pattern
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.stopping import CheckStop, never_stop

# The structures of related programs that are tried, those with most plans first.
MOST_STRUCTURES = 4
History = tuple[Move, ...]


class Relative(NamedTuple):
    """A plan of a related program: the moves that made it, and its placements, by the sites of that program."""

    moves: History
    placements: Placements


def plant(state: SearchState, relatives: Sequence[Relative], check_stop: CheckStop = never_stop) -> int:
    """Plant plans of related programs in a search that has its first variant; return how many.

    Their structural moves are made again at the places of the same names, layers counted alike.
    """
    groups: dict[History, list[Relative]] = {}
    for relative in relatives:
        moves = tuple(move for move in relative.moves if move.rule not in PLACED)
        groups.setdefault(tuple(move for move in moves if _is_tried(state, move)), []).append(relative)
    planted, joined = 0, 0
    for history, group in sorted(groups.items(), key=lambda item: -len(item[1]))[:MOST_STRUCTURES]:
        check_stop()
        graph, moves = _rewritten(state, history, check_stop)
        of_submesh: dict[int, list[Placements]] = {}
        for relative in group:
            fitting = _named_alike(graph, relative.placements)
            of_submesh.setdefault(submesh_of(state, fitting), []).append(fitting)
        for k, placements in of_submesh.items():
            variant = joined_variant(state, k, graph, moves, joined < LARGEST_VARIANTS, check_stop)
            joined += _is_new(state, variant)
            planted += seed_plans(state, variant, placements)
    return planted


def _is_new(state: SearchState, variant: Variant) -> bool:
    return variant.graph is not state.variants[0].graph


def _is_tried(state: SearchState, move: Move) -> bool:
    """Return whether a move was a choice: the saturating rules follow by themselves."""
    return move.rule not in {rule.name for rule in state.structural.saturating}


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
