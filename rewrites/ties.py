"""Equal layers move together: moves that do the same to equal surroundings become one move of many places.

Two matches are of one kind where the definitions of the matched blocks, of the makers of what they read and of
the readers of what they make are equal. Matches of one kind that need the same block fall into different
moves, so that each move's places can be rewritten together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rewrites.move import Move
from rewrites.rule import Match

# What two moves share that do the same to equal surroundings.
Kind = tuple[Any, ...]


class Offer(NamedTuple):
    """A move at one place, its kind, and the blocks that no move beside it may use."""

    move: Move
    kind: Kind
    uses: frozenset[str]


def offer(move: Move, match: Match) -> Offer:
    """A move with what ties it to others of its kind."""
    return Offer(move, (move.rule, move.choice, *_surroundings(match)), _uses(match))


def tied(offers: Iterable[Offer]) -> tuple[Move, ...]:
    """Moves of one kind, in program order, as few moves of many places."""
    waves: list[tuple[list[str], set[str]]] = []
    first = None
    for each in offers:
        first = first or each.move
        wave = next((w for w in waves if w[1].isdisjoint(each.uses)), None)
        if wave is None:
            wave = ([], set())
            waves.append(wave)
        wave[0].extend(each.move.places)
        wave[1].update(each.uses)
    if first is None:
        return ()
    return tuple(
        Move(first.rule, tuple(places) if len(places) > 1 else places[0], first.choice) for places, _ in waves
    )


def _uses(match: Match) -> frozenset[str]:
    """The matched blocks that no move beside this one may use: roots, and what only this match reads."""
    readers, inside = match.draft.readers, set(match.blocks)
    private = (b for b in match.blocks if all(r in inside for t in b.outputs for r, _ in readers[t]))
    return frozenset(b.site for b in (*match.roots, *private))


def _surroundings(match: Match) -> Kind:
    """What is matched and what it touches, without names."""
    draft = match.draft
    own = tuple(b.definition for b in match.blocks)
    makers = tuple(draft.producers[t].definition for b in match.blocks for t in b.inputs)
    readers = tuple(r.definition for b in match.roots for t in b.outputs for r, _ in draft.readers[t])
    return own, makers, readers
