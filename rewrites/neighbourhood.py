"""What a rewrite may have changed for other rules: the places around it whose matches may be others now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rewrites.draft import Draft
from rewrites.index import index_of
from rewrites.match import can_loop, candidates_for, names_of, ways_of
from rewrites.reach import roots_above, skeleton
from rewrites.rule import Rule
from teg.graph import Block


class Changes(NamedTuple):
    """What a rewrite changed: blocks that are new, read something else or stand elsewhere, and tensors whose
    readers changed."""

    blocks: frozenset[str]
    tensors: frozenset[str]

    def __or__(self, other: Changes) -> Changes:
        """What both changed, one after the other."""
        return Changes(self.blocks | other.blocks, self.tensors | other.tensors)


class Near(NamedTuple):
    """The places whose matches may have changed.

    `distances`: how many blocks lie between a place and the nearest change below it; `apart`: by rule the places
    of those with several roots or deep patterns, for which distances do not count; `entangled`: places whose
    matches may need themselves by way of others, or no longer.
    """

    distances: Mapping[str, int]
    apart: Mapping[str, frozenset[str]]
    entangled: frozenset[str] = frozenset()

    def concerns(self, rule: Rule, site: str) -> bool:
        """Whether a rule may fit in another way than before with its first root at a place."""
        if site in self.entangled and can_loop(rule):
            return True
        if rule.name in self.apart:
            return site in self.apart[rule.name]
        return self.distances.get(site, rule.depth) < rule.depth

    @property
    def places(self) -> frozenset[str]:
        """All places that concern any rule, or whose surroundings have changed."""
        return self.entangled.union(self.distances, *self.apart.values())


def near(draft: Draft, rules: Sequence[Rule], changes: Changes) -> Near:
    """The places whose matches may have changed with a rewrite.

    Of deep patterns those that may be new: where one was, and is no more, only who knew it can tell.
    """
    index = index_of(tuple(rules))
    made = [draft.producers[t] for t in changes.tensors if t in draft.producers]
    edge = {s for s in changes.blocks if s in draft.blocks}
    # A tensor with more readers than any pattern has blocks cannot become private by losing one.
    edge.update(
        b.site for b in made if len({r for t in b.outputs for r, _ in draft.readers[t]}) <= index.largest
    )
    distances = dict.fromkeys(edge, 0)
    starts = {*edge, *(b.site for b in made)}
    for distance in range(1, index.depth + 1):
        edge = readers_of(draft, edge) - distances.keys()
        distances.update(dict.fromkeys(edge, distance))
    distances.update((b.site, 0) for b in made)
    shapes = {skeleton(r): r for r in index.deep}
    above = {shape: frozenset(roots_above(draft, r, starts)) for shape, r in shapes.items()}
    apart = {r.name: above[skeleton(r)] for r in index.deep}
    for rule in index.paired:
        own = {site for site, distance in distances.items() if distance <= rule.depth}
        others = range(1, len(rule.roots))
        found = (_firsts(draft, rule, k, draft.blocks[site]) for site in own for k in others)
        apart[rule.name] = frozenset(own.union(*found))
    return Near(distances, apart)


def readers_of(draft: Draft, sites: Iterable[str]) -> set[str]:
    """The blocks that read what these blocks make."""
    return {b.site for s in sites for t in draft.blocks[s].outputs for b, _ in draft.readers[t]}


def _firsts(draft: Draft, rule: Rule, k: int, block: Block) -> Iterator[str]:
    """Where the first root may stand of a match whose root `k` is a block."""
    if k == 0:
        yield block.site
        return
    names = set(names_of(rule.roots[k]))
    earlier = next((j for j in range(k) if names.intersection(names_of(rule.roots[j]))), 0)
    for found in ways_of(draft, rule.roots[k], block, {}):
        for other in candidates_for(draft, rule.roots[earlier], found):
            yield from _firsts(draft, rule, earlier, other)
