"""Structural moves: proposing rewritten graphs, whole classes of equal places at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from optimizer.variants import Settings, Variant, inherit, new_variant
from rewrites import Move, Rule, RuleError, StaleMove, apply_all, find_tied, saturate
from teg.graph import Graph


class StructuralSearch:
    """Which structural moves are left to try, and how often each rule led to a better front.

    `taken` holds per variant's number the offers that are gone, each as its place in the list at that time:
    with them the list of what is left can be made again.
    """

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.saturating = tuple(r for r in self.rules if r.saturating)
        self.endless = tuple(r for r in self.rules if not r.saturating)
        self.known: set[str] = set()
        self.applied = {r.name: 0 for r in self.rules}
        self.improved = {r.name: 0 for r in self.rules}
        self.taken: dict[int, list[int]] = {}
        self._offers: dict[int, list[Move]] = {}

    def simplified(self, graph: Graph) -> tuple[Graph, tuple[Move, ...]]:
        """The graph saturated by the terminating rules, and the moves that lead there."""
        result = saturate(graph, self.saturating)
        for move in result.moves:
            self.applied[move.rule] += 1
        return result.graph, tuple(result.moves)

    def propose(
        self, parent: Variant, rng: np.random.Generator
    ) -> tuple[Graph, tuple[Move, ...], str] | None:
        """A rewritten graph not seen before, its history and the rule; None when there is none to try."""
        offers = self._left(parent)
        if not offers:
            return None
        count = Counter(move.rule for move in offers)
        weight = np.array([self._chance(move.rule) / count[move.rule] for move in offers])
        place = int(rng.choice(len(offers), p=weight / weight.sum()))
        move = offers.pop(place)
        self.taken.setdefault(parent.number, []).append(place)
        try:
            applied = apply_all(parent.graph, [move])
            cleaned = saturate(applied.graph, self.saturating, changes=applied.changes)
        except (StaleMove, RuleError):
            return None
        self.applied[move.rule] += 1
        if cleaned.graph.structural_hash in self.known:
            return None
        self.known.add(cleaned.graph.structural_hash)
        return cleaned.graph, (*parent.moves, move, *cleaned.moves), move.rule

    def _left(self, parent: Variant) -> list[Move]:
        """The moves not tried yet on a variant."""
        if parent.number not in self._offers:
            offers = find_tied(parent.graph, self.endless)
            for place in self.taken.get(parent.number, ()):
                del offers[place]
            self._offers[parent.number] = offers
        return self._offers[parent.number]

    def _chance(self, rule: str) -> float:
        """A floor for every rule, more for those that helped; how many moves it offers does not count."""
        return (1.0 + 3.0 * self.improved[rule]) / (1.0 + 0.5 * self.applied[rule])


def try_child(
    structural: StructuralSearch, parent: Variant, number: int, settings: Settings, rng: np.random.Generator
) -> tuple[Variant | None, str, int]:
    """Propose, compile and polish one child; returns it (or None), its rule and the evaluations spent."""
    proposal = structural.propose(parent, rng)
    if proposal is None:
        return None, "", 0
    graph, moves, rule = proposal
    if not settings.keeps_pins(graph):
        return None, "", 0
    child = new_variant(number, parent.machine, graph, moves, settings)
    return child, rule, inherit(child, parent)
