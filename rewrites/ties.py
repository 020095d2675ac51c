"""Tied moves of equal layers: moves that do the same in equal contexts become one move of many places.

Two matches are of one kind if the definitions of the matched blocks, of the producers of their inputs and of
the readers of their results are equal. Matches of one kind that need the same block become different
moves, so that each move's places can be rewritten together.
"""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from tapestry.rewrites.index import ProducerMap
from tapestry.rewrites.move import Move
from tapestry.rewrites.regions import Fuse
from tapestry.rewrites.rule import Match, Rule
from tapestry.teg.graph import Definition


class Kind:
    """The common properties of moves that do the same in equal contexts; one object for all that are equal.

    `producers` are the definitions of the producers of the tensors that are read; `rest` contains all other properties.
    """

    __slots__ = ("__weakref__", "producers", "rest")

    def __init__(self, rest: tuple[Any, ...], producers: tuple[Definition, ...]) -> None:
        self.rest, self.producers = rest, producers

    @staticmethod
    def of(rest: tuple[Any, ...], producers: tuple[Definition, ...]) -> Kind:
        """Return the kind with these parts."""
        key = (rest, producers)
        known = _kinds.get(key)
        if known is None:
            with _making:  # threads that list moves at once share the kinds
                known = _kinds.get(key)
                if known is None:
                    known = _kinds[key] = Kind(rest, producers)
        return known


_making = Lock()
_kinds: WeakValueDictionary[tuple[Any, ...], Kind] = WeakValueDictionary()


class Candidate(NamedTuple):
    """A candidate move at one place.

    It holds its kind, the blocks that no move beside it may use, and the tensors that the match reads.
    """

    move: Move
    kind: Kind
    uses: frozenset[str]
    reads: tuple[str, ...]


def candidate(move: Move, match: Match, rule: Rule) -> Candidate:
    """Build the candidate move with the data that ties it to others of its kind."""
    reads = tuple([t for b in match.blocks for t in b.inputs])
    kind = Kind.of((move.rule, move.choice, *_surroundings(match)), _producers(match.edited.program, reads))
    # A rule that computes a shared block again may not fit its last reader, once the others have taken it in.
    whole = not rule.right.recomputes if isinstance(rule.right, Fuse) else _repeats(rule, match)
    uses = frozenset(b.site for b in match.blocks) if whole else _uses(match)
    return Candidate(move, kind, uses, reads)


def _repeats(rule: Rule, match: Match) -> bool:
    return rule.duplicates and all(b.inputs for b in match.blocks)


def renewed(known: Candidate, program: ProducerMap) -> Candidate:
    """Update the candidate move if nothing changed except, perhaps, the producers of the tensors it reads."""
    producers = _producers(program, known.reads)
    return (
        known
        if producers == known.kind.producers
        else known._replace(kind=Kind.of(known.kind.rest, producers))
    )


def tied(candidates: Iterable[Candidate]) -> tuple[Move, ...]:
    """Merge moves of one kind, in program order, into as few moves of many places as possible."""
    waves: list[tuple[list[str], set[str]]] = []
    first = None
    for each in candidates:
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
    """Return the matched blocks that no move beside this one may use: roots, and those private to the match."""
    tracked, blocks = match.edited, match.blocks
    private = (b for b in blocks if all(tracked.is_private(t, blocks) for t in b.outputs))
    return frozenset(b.site for b in (*match.roots, *private))


def _surroundings(match: Match) -> tuple[Any, ...]:
    """Return the matched blocks and their readers, without names (a sink may name the state it carries on)."""
    readers = match.edited.readers
    own = tuple([b.definition for b in match.blocks])
    others = [r for b in match.roots for t in b.outputs for r, _ in readers[t]]
    return own, tuple([r.operator if r.operator == "sink" else r.definition for r in others])


def _producers(program: ProducerMap, reads: tuple[str, ...]) -> tuple[Definition, ...]:
    return tuple([program.producers[t].definition for t in reads])
