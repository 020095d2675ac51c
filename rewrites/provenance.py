"""Provenance of the blocks of a rewritten program: a history is replayed, every block's part recorded.

A block exists in versions: the original one, and those that moves produce, under a new site or under the old. A
version was made from the versions that the move matched; the history of a block is traced backwards along these, to
blocks of the original program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from tapestry.rewrites.application import Rules, resolve
from tapestry.rewrites.move import Move, StaleMove
from tapestry.rewrites.mutable_graph import MutableGraph, Position
from tapestry.rewrites.placement import PLAN_WIDE, is_structural
from tapestry.rewrites.replacement import apply_match
from tapestry.rewrites.rules import catalog
from tapestry.teg.faults import near_hint
from tapestry.teg.graph import Block, Graph, Tensor

# What a move may do to a block.
MADE = "made"
REMADE = "remade"  # other work under the same site
REBOUND = "rebound"  # it reads another tensor
TOOK_OVER = "took over"  # what read a removed block reads this one
PLACED = "placed"
REMOVED = "removed"


class ProvenanceEvent(NamedTuple):
    """The effect of one move on one block: the move's number in the history (from 0), and the single move."""

    number: int
    move: Move
    effect: str
    site: str


@dataclass(frozen=True)
class BlockHistory:
    """The provenance of one block.

    `events` are in the order of the history, those of the blocks it was made from included; `origins` the
    blocks of the original program that it stems from, in program order. For a block that was removed,
    `became` lists the blocks of the result that stem from it (none: it was not needed).
    """

    site: str
    events: tuple[ProvenanceEvent, ...]
    origins: tuple[str, ...]
    is_there: bool = True
    became: tuple[str, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers, in the history, of the moves that contributed to it."""
        return tuple(dict.fromkeys(event.number for event in self.events))


@dataclass(eq=False)
class _Version:
    """A block between the move that produces it and the next one; `events` are numbers of events."""

    site: str
    is_given: bool = False
    parents: list[_Version] = field(default_factory=list)
    events: list[int] = field(default_factory=list)


class Provenance:
    """The histories of all blocks under a list of moves. `graph` is the program that it leads to."""

    def __init__(self, given: Graph, moves: Sequence[Move], rules: Rules | None = None) -> None:
        """Replay the structural moves and note the placement moves; O(what they touch) and one copy of the graph.

        Raises:
            StaleMove: a move does not fit.
            RuleError: as for `apply_move`.
        """
        self.given, self.moves = given, tuple(moves)
        self.events: list[ProvenanceEvent] = []
        self._versions: list[_Version] = []
        self._now: dict[str, _Version] = {}
        self._gone: dict[str, _Version] = {}
        self._producers: dict[str, str] = {}  # of tensors that moves made
        known, edited = catalog() if rules is None else rules, _Recorder(given)
        for number, move in enumerate(self.moves):
            for part in () if move.rule in PLAN_WIDE else move.single():
                if is_structural(move):
                    self._rewrite(edited, number, part, known)
                else:
                    self._place(edited, number, part)
        self.graph = edited.graph()

    def block_history(self, site: str) -> BlockHistory:
        """Return the history of a block, or of the block that produces a tensor; it may have been removed.

        Raises:
            ValueError: the history has never met such a block or tensor; near names are listed.
        """
        block = site if site in self.graph.by_site else self._producer(site)
        if block in self.graph.by_site:
            version = self._version(block)
            return BlockHistory(block, self._events_of(version), self._origins(version))
        if block not in self._gone:
            known = (*self.graph.by_site, *self._gone, *self.graph.tensors)
            raise ValueError(f"no block or tensor {site!r} in this history; {near_hint(site, known)}")
        return self._history_of_gone(block)

    def _history_of_gone(self, block: str) -> BlockHistory:
        version = self._gone[block]
        found = {v.site for v in _reached(version, self._children) if v is self._now.get(v.site)}
        became = tuple(b.site for b in self.graph.blocks if b.site in found)
        return BlockHistory(block, self._events_of(version), self._origins(version), False, became)

    def is_original(self, site: str) -> bool:
        """Return whether a block of the result is one of the original program; it may read other tensors by now."""
        return site not in self._now or self._now[site].is_given

    def origins(self, site: str) -> tuple[str, ...]:
        """Return the blocks of the original program that a block of the result stems from, in program order."""
        return self._origins(self._version(site))

    def block_histories(self) -> Iterator[BlockHistory]:
        """Yield the histories of every block of the result, in program order, then of all removed blocks."""
        yield from (self.block_history(b.site) for b in self.graph.blocks)
        yield from map(self._history_of_gone, self._gone)

    def _producer(self, tensor: str) -> str:
        """Return the block that produces a tensor, or produced it last; the text itself if there is none."""
        for graph in (self.graph, self.given):
            if tensor in graph.producers and (graph is self.graph or tensor not in self._producers):
                return graph.producers[tensor].site
        return self._producers.get(tensor, tensor)

    def _events_of(self, version: _Version) -> tuple[ProvenanceEvent, ...]:
        reported = {k for v in _reached(version, lambda v: v.parents) for k in v.events}
        return tuple(self.events[k] for k in sorted(reported))

    def _origins(self, version: _Version) -> tuple[str, ...]:
        found = {v.site for v in _reached(version, lambda v: v.parents) if v.is_given}
        return tuple(sorted(found, key=self._numbers.__getitem__))

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {b.site: k for k, b in enumerate(self.given.blocks)}

    def _children(self, version: _Version) -> Sequence[_Version]:
        return self._made_of.get(version, ())

    @cached_property
    def _made_of(self) -> dict[_Version, list[_Version]]:
        made_of: dict[_Version, list[_Version]] = {}
        for version in self._versions:
            for parent in version.parents:
                made_of.setdefault(parent, []).append(version)
        return made_of

    def _version(self, site: str) -> _Version:
        """Return the present version of the block."""
        return self._now[site] if site in self._now else self._begun(_Version(site, is_given=True))

    def _begun(self, version: _Version) -> _Version:
        self._versions.append(version)
        self._now[version.site] = version
        self._gone.pop(version.site, None)
        return version

    def _note(self, version: _Version, number: int, move: Move, effect: str) -> None:
        version.events.append(len(self.events))
        self.events.append(ProvenanceEvent(number, move, effect, version.site))

    def _place(self, edited: MutableGraph, number: int, move: Move) -> None:
        place = move.places[0]
        if place not in edited.blocks:
            raise StaleMove(move, f"there is no block {place!r}")
        self._note(self._version(place), number, move, PLACED)

    def _rewrite(self, edited: _Recorder, number: int, move: Move, rules: Rules) -> None:
        rule, match, _ = resolve(edited, move, rules)
        matched = [self._version(b.site) for b in match.blocks]
        roots = {t: self._version(root.site) for root in match.roots for t in root.outputs}
        edited.begin()
        apply_match(edited, rule, match, move)
        for site in edited.removed:
            version = self._version(site)
            if site not in edited.added:
                self._note(version, number, move, REMOVED)
            self._gone[site] = self._now.pop(site)
        for site in edited.added:
            version = self._begun(_Version(site, parents=list(matched)))
            self._note(version, number, move, REMADE if site in edited.removed else MADE)
            self._producers.update(dict.fromkeys(edited.blocks[site].outputs, site))
        for old, new in edited.redirected:
            heir = self._version(edited.producers[new].site)
            if heir.site not in edited.added and roots[old] not in heir.parents:
                heir.parents.append(roots[old])
                self._note(heir, number, move, TOOK_OVER)
        for site in edited.rebound:
            if site in edited.blocks and site not in edited.added:
                self._note(self._version(site), number, move, REBOUND)


def _reached(start: _Version, onwards: Callable[[_Version], Sequence[_Version]]) -> Iterator[_Version]:
    """Yield the version and all versions reachable from it."""
    seen, waiting = {start}, [start]
    while waiting:
        version = waiting.pop()
        yield version
        new = [v for v in dict.fromkeys(onwards(version)) if v not in seen]
        seen.update(new)
        waiting.extend(new)


class _Recorder(MutableGraph):
    """A draft that records what the present move did to it, in the order in which it was done."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.begin()

    def begin(self) -> None:
        """Begin a new move: clear the record of others."""
        self.added: dict[str, None] = {}
        self.removed: dict[str, None] = {}
        self.rebound: dict[str, None] = {}
        self.redirected: list[tuple[str, str]] = []

    def add(self, block: Block, position: Position, tensors: Iterable[Tensor] = ()) -> None:
        super().add(block, position, tensors)
        self.added[block.site] = None

    def remove(self, site: str) -> None:
        super().remove(site)
        self.removed[site] = None

    def redirect(self, old: str, new: str, readers: Collection[str] | None = None) -> None:
        readers = [b.site for b, _ in self.readers[old] if readers is None or b.site in readers]
        super().redirect(old, new, readers)
        if readers:
            self.rebound.update(dict.fromkeys(readers))
            self.redirected.append((old, new))
