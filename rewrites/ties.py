"""Equal layers move together: moves that do the same to equal surroundings become one move of many places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewrites.draft import Draft
from rewrites.match import alternatives, index_of
from rewrites.move import Move
from rewrites.rule import Match, Rule
from teg.graph import Graph


def find_tied(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """All moves of these rules, those of equal layers as one; each move's places can be carried out together.

    Two matches are equal where the definitions of the matched blocks, of the makers of what they read and of
    the readers of what they make are. Equal matches that need the same block fall into different moves.

    Raises:
        RuleError: a guard or the choices of a rule fail; it says which.
    """
    draft, index = Draft(graph), index_of(tuple(rules))
    classes: dict[tuple[Any, ...], list[tuple[list[str], set[str]]]] = {}
    for block in graph.blocks:
        for rule in index.rules_at(draft, block):
            for move, match in alternatives(draft, rule, block.site):
                waves = classes.setdefault((move.rule, move.choice, *_surroundings(match)), [])
                sites = _consumed(match)
                wave = next((w for w in waves if not w[1] & sites), None)
                if wave is None:
                    wave = ([], set())
                    waves.append(wave)
                wave[0].extend(move.places)
                wave[1].update(sites)
    return [
        Move(key[0], tuple(places) if len(places) > 1 else places[0], key[1])
        for key, waves in classes.items()
        for places, _ in waves
    ]


def _consumed(match: Match) -> set[str]:
    """The matched blocks that no move beside this one may use: roots, and what only this match reads."""
    readers, inside = match.draft.readers, set(match.blocks)
    private = (b for b in match.blocks if all(r in inside for t in b.outputs for r, _ in readers[t]))
    return {b.site for b in (*match.roots, *private)}


def _surroundings(match: Match) -> tuple[Any, ...]:
    """What is matched and what it touches, without names."""
    draft = match.draft
    own = tuple(b.definition for b in match.blocks)
    makers = tuple(draft.producers[t].definition for b in match.blocks for t in b.inputs)
    readers = tuple(r.definition for b in match.roots for t in b.outputs for r, _ in draft.readers[t])
    return own, makers, readers
