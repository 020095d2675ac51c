"""Checks of a plug-in's rule before it is added to the catalog.

These are the cheap checks, made whenever a process starts, so milliseconds per rule; the whole contract is
`rewrites.testing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapestry.rewrites.application import apply_with_rules
from tapestry.rewrites.finding import find
from tapestry.rewrites.move import Move
from tapestry.rewrites.rule import ExampleSizes, NoOperand, Op, Result, Rule, WholeSide, terms
from tapestry.rewrites.rule_contract import falls, same_values
from tapestry.teg.graph import Graph
from tapestry.teg.operators import catalog as operators
from tapestry.teg.operators import plug_ins as operator_plug_ins
from tapestry.teg.plugins import PlugInError, PlugInGroup, require, require_name, sequence_of
from tapestry.teg.validate import check

GROUP = "tapestry.rules"

# So many moves are tried of one rule: its choices at one place and a few places, not all of a large example.
MOST_MOVES = 8


def checked_rule(offered: Any) -> Rule:
    """Check that the rule is one, knows its operators, fires on its example and keeps its promises; return it.

    Its first moves are made: each gives a valid graph with equal values, and lowers the measure if the
    rule is a saturating one.

    Raises:
        Refused: it is no rule, its sides cannot be built or do not fit together, it names an operator that does not
            exist, its example is no valid graph in which the rule finds a place, or a move breaks a promise.
    """
    rule = require(offered, Rule)
    require_name(rule.name)
    try:
        sides = (*rule.roots, *rule.results)
    except Exception as error:
        raise PlugInError(f"its sides fail: {type(error).__name__}: {error}", "repair them") from error
    _examine_operators(sides)
    try:
        graph = rule.example(ExampleSizes())
        check(graph)
        moves = find(graph, [rule])
    except Exception as error:
        raise PlugInError(
            f"its example fails: {type(error).__name__}: {error}", "repair the example, or what it finds"
        ) from error
    if not moves:
        raise PlugInError("it does not fire on its example", "show a graph in which left side and guard fit")
    for move in moves[:MOST_MOVES]:
        _examine_move(rule, graph, move)
    return rule


def _examine_move(rule: Rule, graph: Graph, move: Move) -> None:
    """Check that the move keeps every promise; raise Refused for the first one that it breaks."""
    hint = "repair the right side"
    try:
        after = apply_with_rules(graph, [move], {rule.name: rule}).graph
        check(after)
        if rule.saturating:
            hint = "let the right side be smaller, or leave `saturating` out"
            falls(graph, after, rule, move)
        hint = "repair the right side, or guard it with `when`; `domain` is 'real' where rounding may differ"
        with np.errstate(all="ignore"):
            same_values(graph, after, rule, np.random.default_rng(0))
    except Exception as error:
        # Of a comparison of arrays the first lines say what differs and how much of it; the rest are numbers.
        lines = str(error).strip().splitlines() or ["no reason given"]
        message = f"{type(error).__name__}: {', '.join(lines[:3])}"
        raise PlugInError(f"its move at {move.place!r} of its example is wrong: {message}", hint) from error


def _examine_operators(sides: Sequence[Result | WholeSide]) -> None:
    """Check that all operators exist: a rule that names an operator that was left out is refused too."""
    for side in sides:
        for term in terms(side) if not isinstance(side, NoOperand | WholeSide) else ():
            if isinstance(term, Op) and term.operator is not None and term.operator not in operators():
                reported = operator_plug_ins().left_out(term.operator) or "no plug-in offers it"
                raise PlugInError(
                    f"it speaks of operator {term.operator!r}, which is not there: {reported}",
                    "repair or install the operator",
                )


RULE_GROUP = PlugInGroup(GROUP, "rule", sequence_of(Rule), checked_rule, lambda rule: (rule.name,))
