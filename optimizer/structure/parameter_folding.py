"""Folding into parameters: rewrites that leave less work for every run once parameters are prepared.

A scale behind a convolution or contraction goes into its weights where these depend on parameters alone
(`rewrites.preparation`); into an activation it goes only where that, too, leaves less work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from tapestry.costmodel.block_cost import base_flops
from tapestry.rewrites import (
    Changes,
    Move,
    Rule,
    RuleError,
    Saturated,
    StaleMove,
    Worklist,
    apply_all,
    saturate,
)
from tapestry.rewrites.algebra.folding import FOLDING
from tapestry.rewrites.preparation import prepared
from tapestry.rewrites.rules import rule_named
from tapestry.teg.graph import Graph

Left = tuple[int, int]


def folding_rules() -> tuple[Rule, ...]:
    """Return the rules that move work from values computed in every run to parameters."""
    return (*FOLDING, rule_named("shift_through_conv"), rule_named("norm_affine_into_contract"))


def work_per_run(graph: Graph) -> Left:
    """Count the flops, then the blocks, that do not depend on parameters alone."""
    parts = prepared(graph)
    program = graph if parts is None else parts.program
    return base_flops(program), len(program.blocks)


def fold_parameters(graph: Graph, rules: Sequence[Rule], simplifying: Sequence[Rule] = ()) -> Saturated:
    """Apply the moves of these rules that leave fewer flops and no more blocks for every run, best first at each
    place.

    The remaining work is counted after simplifying where a move changed something. It ends because the remaining flops
    fall; a rule that fails is as if it did not fit.

    Raises:
        RuleError: a simplification fails or does not end.
    """
    left, candidates, moves = work_per_run(graph), Worklist.of(graph, rules), list[Move]()
    changes, tried = Changes(frozenset(), frozenset()), set[Move]()
    while True:
        offered = (move for move in candidates.tied() if move not in tried)
        better = _first_better(graph, offered, simplifying, left, tried)
        if better is None:
            return Saturated(graph, moves, changes)
        left, made = better
        graph, moves, changes = made.graph, [*moves, *made.moves], changes | made.changes
        candidates = candidates.after(graph, made.changes)


def _first_better(
    graph: Graph, offered: Iterable[Move], simplifying: Sequence[Rule], left: Left, tried: set[Move]
) -> tuple[Left, Saturated] | None:
    """Find the first place where a choice leaves less work, and its best choice; note the other choices as tried."""
    for _, choices in groupby(offered, key=lambda move: (move.rule, move.place)):
        found: list[tuple[Left, Saturated]] = []
        for move in choices:
            try:
                applied = apply_all(graph, [move])
            except (StaleMove, RuleError):
                tried.add(move)
                continue
            simple = saturate(applied.graph, simplifying, changes=applied.changes)
            now = work_per_run(simple.graph)
            if now[0] < left[0] and now[1] <= left[1]:
                changes = applied.changes | simple.changes
                found.append((now, Saturated(simple.graph, [move, *simple.moves], changes)))
            else:
                tried.add(move)
        if found:
            return min(found, key=lambda one: one[0])
    return None
