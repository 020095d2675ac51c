"""What a rule of a plug-in is asked before it is let into the catalogue.

These are the cheap questions, asked whenever a process starts; the whole contract is `rewrites.testing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewrites.finding import find
from rewrites.regions import Fuse, SpellOut
from rewrites.rule import Computed, Nothing, Op, Result, Rule, Sizes, WholeSide, terms
from teg.operators import catalogue as operators
from teg.operators import plug_ins as operator_plug_ins
from teg.plugins import Group, Refused, require, require_name, sequence_of
from teg.validate import check

GROUP = "tapestry.rules"


def examined(offered: Any) -> Rule:
    """The rule, if it is one, knows its operators, and fires on its example.

    Raises:
        Refused: it is no rule, its sides cannot be made or do not go together, it names an operator that is not
            there, or its example is no valid graph in which the rule finds a place.
    """
    rule = require(offered, Rule)
    require_name(rule.name)
    try:
        sides = (*rule.roots, *rule.results)
    except Exception as error:
        raise Refused(f"its sides fail: {type(error).__name__}: {error}", "repair them") from error
    _examine_operators(sides)
    try:
        graph = rule.example(Sizes())
        check(graph)
        moves = find(graph, [rule])
    except Exception as error:
        raise Refused(
            f"its example fails: {type(error).__name__}: {error}", "repair the example, or what it finds"
        ) from error
    if not moves:
        raise Refused("it does not fire on its example", "show a graph in which left side and guard fit")
    return rule


def _examine_operators(sides: Sequence[Result | WholeSide]) -> None:
    """An operator that is left out takes the rules with it that speak of it."""
    for side in sides:
        for term in terms(side) if not isinstance(side, Nothing | Computed | Fuse | SpellOut) else ():
            if isinstance(term, Op) and term.operator is not None and term.operator not in operators():
                told = operator_plug_ins().left_out(term.operator) or "no plug-in offers it"
                raise Refused(
                    f"it speaks of operator {term.operator!r}, which is not there: {told}",
                    "repair or install the operator",
                )


RULE_GROUP = Group(GROUP, "rule", sequence_of(Rule), examined, lambda rule: (rule.name,))
