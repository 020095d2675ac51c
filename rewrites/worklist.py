"""All candidate moves of a graph, kept current: a rule is tried again if its tracked reads changed.

Candidate moves are indexed by place and by kind. Both indexes are values: those of a rewritten graph are a copy of
its parent's with the changed entries replaced, and equal to those computed from scratch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from tapestry.rewrites.index import index_of
from tapestry.rewrites.match_cache import Place, RuleFailure, tried
from tapestry.rewrites.move import Move
from tapestry.rewrites.mutable_graph import program_order_of
from tapestry.rewrites.neighborhood import Changes
from tapestry.rewrites.rule import Rule, RuleError
from tapestry.rewrites.ties import Candidate, Kind, tied
from tapestry.rewrites.tracked_graph import EVERYTHING, MANY, Key, TrackedGraph, has_many_readers
from tapestry.teg.graph import Graph


@dataclass(eq=False, slots=True)
class Tied:
    """Moves of one kind: the places of their first roots in program order, and, once requested, the moves.

    There are as few moves of many places as possible.
    """

    places: tuple[str, ...]
    known: tuple[Move, ...] | None = None

    def moves(self, kind: Kind, places: Mapping[str, Place]) -> tuple[Move, ...]:
        """Return as few moves of many places as possible."""
        if self.known is None:
            self.known = tied(o for s in self.places for o in places[s].candidates if o.kind is kind)
        return self.known


# Keys that a file of watchers may hold beside its base before they become one: copying the base takes longest.
MOST_BESIDE = 1024


class ReadIndex(NamedTuple):
    """The places that read something: a base that many graphs share, and the present differences from it."""

    base: Mapping[Key, frozenset[str]] = {}
    now: Mapping[Key, frozenset[str]] = {}

    def at(self, key: Key) -> frozenset[str]:
        """Return the places that read this."""
        found = self.now.get(key)
        return self.base.get(key, frozenset()) if found is None else found

    def but(self, changed: Mapping[Key, frozenset[str]]) -> ReadIndex:
        """Return a copy with the places of some keys replaced."""
        now = {**self.now, **changed}
        if len(now) <= MOST_BESIDE:
            return ReadIndex(self.base, now)
        return ReadIndex({key: sites for key, sites in {**self.base, **now}.items() if sites})


@dataclass(frozen=True, eq=False)
class Worklist:
    """The candidate moves of some rules on a graph; a rule that fails at a place has none there (`failures`).

    `watchers` record which places read something.
    """

    graph: Graph
    rules: tuple[Rule, ...]
    places: Mapping[str, Place]
    kinds: Mapping[Kind, Tied]
    watchers: ReadIndex

    @staticmethod
    def of(graph: Graph, rules: Sequence[Rule]) -> Worklist:
        """Compute the candidate moves of a graph from scratch."""
        tracked, index = TrackedGraph(graph), index_of(tuple(rules))
        places = {b.site: tried(tracked, index, b) for b in graph.blocks}
        kinds = _filed(graph, {}, {}, places, (), places)
        return Worklist(graph, tuple(rules), places, kinds, _watching(ReadIndex(), {}, places, places))

    def after(self, graph: Graph, changes: Changes) -> Worklist:
        """Update the candidate moves for the graph that a rewrite made of this one."""
        tracked, index = TrackedGraph(graph), index_of(self.rules)
        seen = self._changed(graph, changes)
        new = {s for s in changes.blocks if s in graph.by_site}
        concerned = new.union(*map(self.watchers.at, seen))
        concerned |= self._fed_otherwise(graph, new)
        touched = concerned | changes.blocks
        places = dict(self.places)
        for site in touched:
            before = places.pop(site, None)
            if site in graph.by_site:
                block = graph.by_site[site]
                places[site] = tried(tracked, index, block, None if site in new else before, seen)
        kinds = _filed(graph, self.kinds, self.places, places, self._moved(graph, changes), touched)
        watchers = _watching(self.watchers, self.places, places, touched)
        return Worklist(graph, self.rules, places, kinds, watchers)

    def _changed(self, graph: Graph, changes: Changes) -> set[Key]:
        """Find the keys whose reads give another result than before."""
        found: set[Key] = {EVERYTHING, *((t,) for t in changes.tensors)}
        for t in changes.tensors:
            before, now = self.graph.readers.get(t, ()), graph.readers.get(t, ())
            if has_many_readers(before) != has_many_readers(now):
                found.add((t, MANY))
        for site in changes.blocks:
            for block in (self.graph.by_site.get(site), graph.by_site.get(site)):
                if block is not None:
                    found.update(block.outputs)
                    if not block.inputs:
                        found.add(block.definition)
        return found

    def _fed_otherwise(self, graph: Graph, new: Collection[str]) -> set[str]:
        """Find the blocks that read a result of another operator than before: other rules may match there."""
        found = set[str]()
        for block in map(graph.by_site.__getitem__, new):
            for t in block.outputs:
                before = self.graph.producers.get(t)
                if before is None or before.operator != block.operator:
                    found.update(reader.site for reader, _ in graph.readers[t])
        return found

    def _moved(self, graph: Graph, changes: Changes) -> set[str]:
        """Find the changed blocks that have moved in program order."""
        before, after = program_order_of(self.graph).positions, program_order_of(graph).positions
        return {s for s in changes.blocks if s in after and before.get(s) != after[s]}

    @property
    def failures(self) -> tuple[RuleFailure, ...]:
        """The rules that fail somewhere, each once, with the message of the first failure in program order."""
        broken = index_of(self.rules).broken
        found: dict[str, RuleFailure] = {name: RuleFailure(name, e.reason) for name, e in broken.items()}
        for block in self.graph.blocks:
            for failure in self.places[block.site].failures if block.site in self.places else ():
                found.setdefault(failure.rule, failure)
        return tuple(found.values())

    def moves(self) -> list[Move]:
        """List one move per place, choice and way to match, in program order."""
        places = self.places
        return list(chain.from_iterable([places[b.site].moves for b in self.graph.blocks]))

    def tied(self) -> list[Move]:
        """List the moves, those of equal layers as one; each move's places can be rewritten together."""
        positions = program_order_of(self.graph).positions

        def rank(entry: tuple[Kind, Tied]) -> tuple[tuple[int, ...], int]:
            kind, found = entry
            first = found.places[0]
            return positions[first], next(
                k for k, o in enumerate(self.places[first].candidates) if o.kind is kind
            )

        ordered = sorted(self.kinds.items(), key=rank)
        return [move for kind, found in ordered for move in found.moves(kind, self.places)]


def find_tied(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """Find all moves of these rules, those of equal layers as one; a move's places can be rewritten together.

    Raises:
        RuleError: a guard or the choices of a rule fail; it says which.
    """
    candidates = Worklist.of(graph, rules)
    for failure in candidates.failures:
        raise RuleError(*failure)
    return candidates.tied()


def _watching(
    watchers: ReadIndex, before: Mapping[str, Place], after: Mapping[str, Place], touched: Iterable[str]
) -> ReadIndex:
    """Update the record of which places read something for the touched places."""
    left: dict[Key, set[str]] = {}
    come: dict[Key, set[str]] = {}
    for site in touched:
        old, new = before.get(site), after.get(site)
        if old is not new:
            was, now = (frozenset[Key]() if place is None else place.watched for place in (old, new))
            for key in was - now:
                left.setdefault(key, set()).add(site)
            for key in now - was:
                come.setdefault(key, set()).add(site)
    none = set[str]()
    return watchers.but(
        {k: watchers.at(k) - left.get(k, none) | come.get(k, none) for k in left.keys() | come.keys()}
    )


def _filed(
    graph: Graph,
    kinds: Mapping[Kind, Tied],
    before: Mapping[str, Place],
    after: Mapping[str, Place],
    moved: Collection[str],
    touched: Iterable[str],
) -> dict[Kind, Tied]:
    """Update the index by kind for the touched places; `moved` ones have changed program order."""
    positions = program_order_of(graph).positions
    left: dict[Kind, set[str]] = {}
    come: dict[Kind, set[str]] = {}
    for site in touched:
        if site not in moved and site in after and before.get(site) is after[site]:
            continue
        old, new = _by_kind(before.get(site)), _by_kind(after.get(site))
        for kind in old.keys() | new.keys():
            if site in moved or old.get(kind) != new.get(kind):
                left.setdefault(kind, set()).add(site)
                if kind in new:
                    come.setdefault(kind, set()).add(site)
    result = dict(kinds)
    for kind, gone in left.items():
        there, others = kinds[kind].places if kind in kinds else (), come.get(kind, set())
        if gone == others and gone.isdisjoint(moved) and gone.issubset(there):
            result[kind] = Tied(there)  # others of the same kind at the same places
        elif sites := {*there} - gone | others:
            result[kind] = Tied(tuple(sorted(sites, key=positions.__getitem__)))
        else:
            del result[kind]
    return result


def _by_kind(place: Place | None) -> dict[Kind, list[Candidate]]:
    """Group the candidate moves at a place by kind."""
    found: dict[Kind, list[Candidate]] = {}
    for each in () if place is None else place.candidates:
        found.setdefault(each.kind, []).append(each)
    return found
