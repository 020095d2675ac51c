"""All moves of a graph, kept current from move to move: only the neighbourhood of a change is matched again.

Offers are filed by place and by kind. Both files are values: those of a rewritten graph are a copy of its
parent's with the neighbourhood exchanged, and equal to what is found from nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rewrites.draft import Draft, order_of
from rewrites.index import index_of
from rewrites.match import alternatives
from rewrites.move import Move
from rewrites.neighbourhood import Changes, Near, near, readers_of
from rewrites.rule import Rule, RuleError
from rewrites.ties import Kind, Offer, offer, renewed, tied
from teg.graph import Block, Graph


class Failure(NamedTuple):
    """A rule that cannot say whether it fits, and what it said instead."""

    rule: str
    message: str


class Place(NamedTuple):
    """What is offered where the first root is a certain block, in the order of the rules.

    `reached` are, each with its rule, blocks of matches that might need each other by way of others: last roots of
    several, parts of a fused block; of those too that do, and so make a cycle.
    """

    offers: tuple[Offer, ...]
    reached: frozenset[tuple[str, str]]
    failures: tuple[Failure, ...]


@dataclass(eq=False, slots=True)
class Tied:
    """Moves of one kind: the places of their first roots in program order, and, once asked for, as few moves."""

    places: tuple[str, ...]
    known: tuple[Move, ...] | None = None

    def moves(self, kind: Kind, places: Mapping[str, Place]) -> tuple[Move, ...]:
        """As few moves of many places as there can be."""
        if self.known is None:
            self.known = tied(o for s in self.places for o in places[s].offers if o.kind == kind)
        return self.known


@dataclass(frozen=True, eq=False)
class Offers:
    """All moves of some rules on a graph. A rule that fails at a place offers nothing there: see `failures`.

    `pairs` are the places with matches whose blocks might need each other by way of others, `deep` those with
    offers of deep patterns.
    """

    graph: Graph
    rules: tuple[Rule, ...]
    places: Mapping[str, Place]
    kinds: Mapping[Kind, Tied]
    pairs: frozenset[str]
    deep: frozenset[str]

    @staticmethod
    def of(graph: Graph, rules: Sequence[Rule]) -> Offers:
        """Those of a graph, from nothing."""
        draft, index = Draft(graph), tuple(rules)
        found = ((b.site, _matched(draft, index, b)) for b in graph.blocks)
        places = {site: place for site, place in found if place is not None}
        kinds = _filed(graph, {}, {}, places, (), places)
        return Offers(graph, index, places, kinds, _with_pairs(places), _with_deep(places, index))

    def after(self, graph: Graph, changes: Changes) -> Offers:
        """Those of the graph that a rewrite made of this one."""
        draft = Draft(graph)
        gone = self.places.keys() - graph.by_site.keys()
        affected = near(draft, self.rules, changes)
        deep = {rule.name for rule in index_of(self.rules).deep}
        shaken = self._shaken(draft, changes, deep)
        apart = {name: sites | shaken if name in deep else sites for name, sites in affected.apart.items()}
        affected = Near(affected.distances, apart, frozenset(self._entangled(draft, changes)))
        concerned = affected.places
        places = dict(self.places)
        for site in gone:
            del places[site]
        for site in concerned:
            place = _matched(draft, self.rules, draft.blocks[site], self.places.get(site), affected)
            if place is not None:
                places[site] = place
            else:
                places.pop(site, None)
        touched = (*gone, *concerned)
        kinds = _filed(graph, self.kinds, self.places, places, self._moved(graph, changes), touched)
        now = {s: places[s] for s in concerned if s in places}
        pairs = (self.pairs - gone - concerned) | _with_pairs(now)
        others = (self.deep - gone - concerned) | _with_deep(now, self.rules)
        return Offers(graph, self.rules, places, kinds, pairs, others)

    def _entangled(self, draft: Draft, changes: Changes) -> set[str]:
        """Places between whose blocks something changed: that they need each other may be new."""
        changed = [draft.position(s) for s in changes.blocks if s in draft.blocks]
        changed += [draft.position(draft.producers[t].site) for t in changes.tensors if t in draft.producers]
        found = set()
        for site in self.pairs:
            if site in draft.blocks:
                sites = (site, *(reached for _, reached in self.places[site].reached))
                spots = [draft.position(s) for s in sites if s in draft.blocks]
                if len(spots) < len(sites) or any(min(spots) <= at <= max(spots) for at in changed):
                    found.add(site)
        return found

    def _shaken(self, draft: Draft, changes: Changes, rules: Collection[str]) -> set[str]:
        """Places of deep patterns in which, or right below which, something changed."""
        starts = {s for s in changes.blocks if s in draft.blocks}
        starts.update(draft.producers[t].site for t in changes.tensors if t in draft.producers)
        touched = starts | readers_of(draft, starts)
        return {
            site
            for site in self.deep
            if site in draft.blocks
            and any(
                s in touched or s not in draft.blocks
                for o in self.places[site].offers
                if o.move.rule in rules
                for s in o.within
            )
        }

    def _moved(self, graph: Graph, changes: Changes) -> set[str]:
        """The changed blocks that do not stand where they stood."""
        before, after = order_of(self.graph).positions, order_of(graph).positions
        return {s for s in changes.blocks if s in after and before.get(s) != after[s]}

    @property
    def failures(self) -> tuple[Failure, ...]:
        """The rules that fail somewhere, each once, with what the first failure in program order says."""
        found: dict[str, Failure] = {}
        for block in self.graph.blocks:
            for failure in self.places[block.site].failures if block.site in self.places else ():
                found.setdefault(failure.rule, failure)
        return tuple(found.values())

    def moves(self) -> list[Move]:
        """One move per place, choice and way to match, in program order."""
        places = self.places
        return [o.move for b in self.graph.blocks if b.site in places for o in places[b.site].offers]

    def tied(self) -> list[Move]:
        """Moves of equal layers as one; each move's places can be rewritten together."""
        positions = order_of(self.graph).positions

        def rank(entry: tuple[Kind, Tied]) -> tuple[tuple[int, ...], int]:
            kind, found = entry
            first = found.places[0]
            return positions[first], next(
                k for k, o in enumerate(self.places[first].offers) if o.kind == kind
            )

        ordered = sorted(self.kinds.items(), key=rank)
        return [move for kind, found in ordered for move in found.moves(kind, self.places)]


def _with_pairs(places: Mapping[str, Place]) -> frozenset[str]:
    return frozenset(site for site, place in places.items() if place.reached)


def _with_deep(places: Mapping[str, Place], rules: tuple[Rule, ...]) -> frozenset[str]:
    names = {rule.name for rule in index_of(rules).deep}
    return frozenset(s for s, place in places.items() if any(o.move.rule in names for o in place.offers))


def find_tied(graph: Graph, rules: Sequence[Rule]) -> list[Move]:
    """All moves of these rules, those of equal layers as one; each move's places can be carried out together.

    Raises:
        RuleError: a guard or the choices of a rule fail; it says which.
    """
    offers = Offers.of(graph, rules)
    for failure in offers.failures:
        raise RuleError(*failure)
    return offers.tied()


def _matched(
    draft: Draft,
    rules: tuple[Rule, ...],
    block: Block,
    before: Place | None = None,
    affected: Near | None = None,
) -> Place | None:
    """What the rules offer at a block; those that nothing `affected` concerns offer what they did `before`."""
    offers: list[Offer] = []
    failures: list[Failure] = []
    reached: set[tuple[str, str]] = set()
    kept: dict[str, list[Offer]] = {}
    for each in () if before is None or affected is None else before.offers:
        kept.setdefault(each.move.rule, []).append(each)
    for rule in index_of(rules).rules_at(draft, block):
        if affected is not None and not affected.concerns(rule, block.site):
            if before is not None:
                offers += [renewed(o, draft) for o in kept.get(rule.name, ())]
                failures += [f for f in before.failures if f.rule == rule.name]
                reached.update([r for r in before.reached if r[0] == rule.name])
            continue
        ends: set[str] = set()
        try:
            offers += [offer(*found, rule) for found in alternatives(draft, rule, block.site, ends)]
        except RuleError as error:
            failures.append(Failure(rule.name, error.reason))
        reached.update((rule.name, end) for end in ends)
    if not (offers or reached or failures):
        return None
    found = Place(tuple(offers), frozenset(reached), tuple(failures))
    return before if found == before else found


def _filed(
    graph: Graph,
    kinds: Mapping[Kind, Tied],
    before: Mapping[str, Place],
    after: Mapping[str, Place],
    moved: Collection[str],
    touched: Iterable[str],
) -> dict[Kind, Tied]:
    """The file by kind, with the offers at touched places exchanged; `moved` ones stand elsewhere in the program."""
    positions = order_of(graph).positions
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
        sites = {*(kinds[kind].places if kind in kinds else ())} - gone | come.get(kind, set())
        if sites:
            result[kind] = Tied(tuple(sorted(sites, key=positions.__getitem__)))
        else:
            del result[kind]
    return result


def _by_kind(place: Place | None) -> dict[Kind, list[Offer]]:
    """What is offered at a place, by kind."""
    found: dict[Kind, list[Offer]] = {}
    for each in () if place is None else place.offers:
        found.setdefault(each.kind, []).append(each)
    return found
