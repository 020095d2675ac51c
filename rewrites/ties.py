"""Equal layers move together: moves that do the same to equal surroundings become one move of many places.

Two matches are of one kind where the definitions of the matched blocks, of the makers of what they read and of
the readers of what they make are equal. Matches of one kind that need the same block fall into different
moves, so that each move's places can be rewritten together.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from tapestry.rewrites.index import Wired
from tapestry.rewrites.move import Move
from tapestry.rewrites.regions import Fuse
from tapestry.rewrites.rule import Match, Rule
from tapestry.teg.graph import Definition


class Kind:
    """What two moves share that do the same to equal surroundings; one object for all that are equal.

    `makers` are the definitions of what makes the tensors that are read; what else there is says `rest`.
    """

    __slots__ = ("__weakref__", "makers", "rest")

    def __init__(self, rest: tuple[Any, ...], makers: tuple[Definition, ...]) -> None:
        self.rest, self.makers = rest, makers

    @staticmethod
    def of(rest: tuple[Any, ...], makers: tuple[Definition, ...]) -> Kind:
        """The kind with these parts."""
        key = (rest, makers)
        known = _kinds.get(key)
        if known is None:
            with _making:  # threads that list moves at once share the kinds
                known = _kinds.get(key)
                if known is None:
                    known = _kinds[key] = Kind(rest, makers)
        return known


_making = Lock()
_kinds: WeakValueDictionary[tuple[Any, ...], Kind] = WeakValueDictionary()


class Offer(NamedTuple):
    """A move at one place, its kind, the blocks that no move beside it may use, and what the match reads."""

    move: Move
    kind: Kind
    uses: frozenset[str]
    reads: tuple[str, ...]


def offer(move: Move, match: Match, rule: Rule) -> Offer:
    """A move with what ties it to others of its kind."""
    reads = tuple([t for b in match.blocks for t in b.inputs])
    kind = Kind.of((move.rule, move.choice, *_surroundings(match)), _makers(match.draft.program, reads))
    # A rule that computes a shared block again may not fit its last reader, once the others have taken it in.
    whole = not rule.right.recomputes if isinstance(rule.right, Fuse) else _repeats(rule, match)
    uses = frozenset(b.site for b in match.blocks) if whole else _uses(match)
    return Offer(move, kind, uses, reads)


def _repeats(rule: Rule, match: Match) -> bool:
    return rule.duplicates and all(b.inputs for b in match.blocks)


def renewed(known: Offer, program: Wired) -> Offer:
    """The offer where nothing changed but, perhaps, what makes the tensors it reads."""
    makers = _makers(program, known.reads)
    return known if makers == known.kind.makers else known._replace(kind=Kind.of(known.kind.rest, makers))


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
    sight, blocks = match.draft, match.blocks
    private = (b for b in blocks if all(sight.is_private(t, blocks) for t in b.outputs))
    return frozenset(b.site for b in (*match.roots, *private))


def _surroundings(match: Match) -> tuple[Any, ...]:
    """What is matched and what reads it, without names (a sink may name the state that it carries on)."""
    readers = match.draft.readers
    own = tuple([b.definition for b in match.blocks])
    others = [r for b in match.roots for t in b.outputs for r, _ in readers[t]]
    return own, tuple([r.operator if r.operator == "sink" else r.definition for r in others])


def _makers(program: Wired, reads: tuple[str, ...]) -> tuple[Definition, ...]:
    return tuple([program.producers[t].definition for t in reads])
