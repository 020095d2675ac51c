"""Strategies of application beyond the single move: saturation by rules that end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from itertools import groupby
from typing import NamedTuple

from rewrites.draft import Draft
from rewrites.match import Changes, alternatives, in_order, index_of, near
from rewrites.move import Move
from rewrites.replacement import carry_out
from rewrites.rule import Rule, RuleError
from teg.graph import Graph


class Saturated(NamedTuple):
    """The graph in which no rule fits any more, the moves that lead there, and what they changed."""

    graph: Graph
    moves: list[Move]
    changes: Changes


def saturate(
    graph: Graph, rules: Sequence[Rule], limit: int = 100_000, changes: Changes | None = None
) -> Saturated:
    """Apply the rules wherever they fit, rule by rule, each in program order, until none does.

    What one rule does in one pass is one move of many places. `changes` are those of the moves made since the
    graph was last saturated: then only their neighbourhood is looked at.

    Raises:
        ValueError: a rule is not declared to end.
        RuleError: it did not end within `limit` places; the rule that fired most is named.
    """
    endless = [r.name for r in rules if not r.saturating]
    if endless:
        raise ValueError(
            f"rules {endless} are not saturating: applying them may never end; let a search choose"
        )
    draft, fired = Draft(graph), list[Move]()
    places: Collection[str] = draft.blocks.keys() if changes is None else near(draft, rules, changes).several
    blocks, tensors = set[str](), set[str]()
    while places:
        for rule, sites in _by_rule(draft, rules, places).items():
            for site in sites:
                while (move := _first(draft, rule, site)) is not None:
                    fired.append(move)
                    if len(fired) > limit:
                        name, count = Counter(m.rule for m in fired).most_common(1)[0]
                        raise RuleError(
                            name, f"saturation did not end: it fired {count} times in {limit} moves"
                        )
        new = Changes(frozenset(draft.changed), frozenset(draft.reread))
        blocks |= new.blocks
        tensors |= new.tensors
        draft.changed, draft.reread = set(), set()
        places = near(draft, rules, new).several
    return Saturated(draft.graph(), _in_runs(fired), Changes(frozenset(blocks), frozenset(tensors)))


def _by_rule(draft: Draft, rules: Sequence[Rule], places: Collection[str]) -> dict[Rule, list[str]]:
    """The places at which each rule may fit, in program order."""
    index = index_of(tuple(rules))
    found: dict[Rule, list[str]] = {rule: [] for rule in rules}
    for block in in_order(draft, places):
        for rule in index.rules_for(draft, block):
            found[rule].append(block.site)
    return found


def _first(draft: Draft, rule: Rule, place: str) -> Move | None:
    """Carry out a rule's first move at a place, and return it."""
    for move, match in alternatives(draft, rule, place):
        carry_out(draft, rule, match, move)
        return move
    return None


def _in_runs(moves: Sequence[Move]) -> list[Move]:
    """Moves of one rule and choice that follow each other, as one move of many places."""
    runs = groupby(moves, key=lambda m: (m.rule, m.choice))
    tied = ((rule, tuple(p for m in run for p in m.places), choice) for (rule, choice), run in runs)
    return [Move(rule, places if len(places) > 1 else places[0], choice) for rule, places, choice in tied]
