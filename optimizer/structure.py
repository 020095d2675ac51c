"""Structural moves: proposing rewritten graphs, whole classes of equal places at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from optimizer.ties import gene_ties
from optimizer.variants import Settings, Variant, inherit, new_variant
from rewrites import Move, Rule, StaleMove, apply_all, find, saturate
from rewrites.move import SEVERAL
from teg.graph import Graph


class StructuralSearch:
    """Which structural moves were tried, how often each rule led to a better front, and what to try next."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)
        self.saturating = tuple(r for r in self.rules if r.saturating)
        self.endless = tuple(r for r in self.rules if not r.saturating)
        self.tried: set[str] = set()
        self.known: set[str] = set()
        self.applied = {r.name: 0 for r in self.rules}
        self.improved = {r.name: 0 for r in self.rules}
        self._offers: dict[int, dict[tuple[str, str], list[Move]]] = {}

    def simplified(self, graph: Graph) -> tuple[Graph, tuple[Move, ...]]:
        """The graph saturated by the terminating rules, and the moves that lead there."""
        result = saturate(graph, self.saturating)
        for move in result.moves:
            self.applied[move.rule] += 1
        return result.graph, tuple(result.moves)

    def propose(
        self, parent: Variant, rng: np.random.Generator
    ) -> tuple[Graph, tuple[Move, ...], str] | None:
        """A rewritten graph not seen before, its history and the rule; None when nothing is left to try."""
        offers = self._offers.setdefault(parent.number, self._classes(parent))
        keys = [k for k in offers if f"{parent.number}:{k}" not in self.tried]
        if not keys:
            return None
        weight = np.array([self._chance(rule) for rule, _ in keys])
        key = keys[int(rng.choice(len(keys), p=weight / weight.sum()))]
        self.tried.add(f"{parent.number}:{key}")
        applied = _apply_class(parent.graph, offers[key])
        if applied is None:
            return None
        graph, move = applied
        cleaned = saturate(graph, self.saturating)
        self.applied[key[0]] += 1
        if cleaned.graph.structural_hash in self.known:
            return None
        self.known.add(cleaned.graph.structural_hash)
        return cleaned.graph, (*parent.moves, move, *cleaned.moves), key[0]

    def _chance(self, rule: str) -> float:
        """A floor for every rule, more for those that helped."""
        return (1.0 + 3.0 * self.improved[rule]) / (1.0 + 0.5 * self.applied[rule])

    def _classes(self, parent: Variant) -> dict[tuple[str, str], list[Move]]:
        """Moves of one rule at tied places, with the same alternative, belong together."""
        label = gene_ties(parent.space).label
        places = {b.site: int(label[g]) for g, b in enumerate(parent.space.blocks)}
        classes: dict[tuple[str, str], list[Move]] = {}
        for move in find(parent.graph, self.endless):
            (place,) = move.places
            tied = "&".join(str(places.get(site, site)) for site in place.split(SEVERAL))
            classes.setdefault((move.rule, f"{tied} {move.choice}"), []).append(move)
        return classes


def _apply_class(graph: Graph, moves: list[Move]) -> tuple[Graph, Move] | None:
    """Carry out the moves of a class that do not get in each other's way, as one move at several places."""
    remaining = list(moves)
    while remaining:
        joint = Move(remaining[0].rule, tuple(m.places[0] for m in remaining), remaining[0].choice)
        try:
            return apply_all(graph, [joint]).graph, joint
        except StaleMove as stale:
            remaining = [m for m in remaining if m.places != stale.move.places]
    return None


def try_child(
    structural: StructuralSearch, parent: Variant, number: int, settings: Settings, rng: np.random.Generator
) -> tuple[Variant | None, str, int]:
    """Propose, compile and polish one child; returns it (or None), its rule and the evaluations spent."""
    proposal = structural.propose(parent, rng)
    if proposal is None:
        return None, "", 0
    graph, moves, rule = proposal
    child = new_variant(number, graph, moves, settings)
    return child, rule, inherit(child, parent, settings.goal)
