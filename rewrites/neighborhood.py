"""Changes made by a rewrite, and the places around them where patterns may match differently.

For saturation, which does not track the reads of rules: the depth of its patterns bounds how far a change
reaches. All other moves are kept current by tracked reads (`rewrites.worklist`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple

from tapestry.rewrites.index import index_of
from tapestry.rewrites.mutable_graph import MutableGraph
from tapestry.rewrites.rule import Rule
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.rewrites.unify import candidates_for, names_of, ways_of
from tapestry.teg.graph import Block


class Changes(NamedTuple):
    """The changes made by a rewrite.

    `blocks` are new, removed, read other tensors or have moved; `tensors` have other readers than before.
    """

    blocks: frozenset[str]
    tensors: frozenset[str]

    def __or__(self, other: Changes) -> Changes:
        """Combine the changes of both, one after the other."""
        return Changes(self.blocks | other.blocks, self.tensors | other.tensors)


def changes_of(edited: MutableGraph) -> Changes:
    """Return the changes made in a draft."""
    return Changes(frozenset(edited.changed), frozenset(edited.reread))


def near(edited: MutableGraph, rules: Sequence[Rule], changes: Changes) -> frozenset[str]:
    """Find the places at which the rules may match differently than before the changes."""
    index = index_of(tuple(rules))
    made = [edited.producers[t] for t in changes.tensors if t in edited.producers]
    edge = {s for s in changes.blocks if s in edited.blocks}
    # A tensor with more readers than any pattern has blocks cannot become private by losing one.
    edge.update(
        b.site for b in made if len({r for t in b.outputs for r, _ in edited.readers[t]}) <= index.largest
    )
    distances = dict.fromkeys(edge, 0)
    for distance in range(1, index.depth + 1):
        edge = readers_of(edited, edge) - distances.keys()
        distances.update(dict.fromkeys(edge, distance))
    distances.update((b.site, 0) for b in made)
    places = {site for site, distance in distances.items() if distance < index.depth}
    tracked = TrackedGraph(edited)
    for rule in index.paired:
        own = [edited.blocks[site] for site, distance in distances.items() if distance <= rule.depth]
        places.update(block.site for block in own)
        for k in range(1, len(rule.roots)):
            likely = (b for b in own if rule.roots[k].operator in (None, b.operator))
            places.update(site for block in likely for site in _firsts(tracked, rule, k, block))
    return frozenset(places)


def readers_of(edited: MutableGraph, sites: Iterable[str]) -> set[str]:
    """Return the blocks that read results of these blocks."""
    return {b.site for s in sites for t in edited.blocks[s].outputs for b, _ in edited.readers[t]}


def _firsts(tracked: TrackedGraph, rule: Rule, k: int, block: Block) -> Iterator[str]:
    """Yield the possible first roots of matches whose root `k` is a block."""
    if k == 0:
        yield block.site
        return
    earlier = _linked_root(rule, k)
    for found in ways_of(tracked, rule.roots[k], block, {}):
        for other in candidates_for(tracked, rule.roots[earlier], found):
            yield from _firsts(tracked, rule, earlier, other)


@cache
def _linked_root(rule: Rule, k: int) -> int:
    """Find the first root that names a tensor that root `k` names too."""
    names = set(names_of(rule.roots[k]))
    return next((j for j in range(k) if names.intersection(names_of(rule.roots[j]))), 0)
