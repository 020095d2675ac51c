"""Contraction order of many operands: trees of pairs, optimized by flops or by the largest intermediate.

Pure mathematics on names and sizes. Up to `MOST_EXACT` operands every tree is considered, by dynamic programming
over sets of operands (Pfeifer, Haegeman and Verstraete, Faster identification of optimal contraction sequences for
tensor networks, 2014); outer products, names of many operands and names of the output that all share are no
special cases. Above, trees are grown greedily from the pair that produces the smallest tensor, and then
improved: the branches just below a node are rearranged as long as that helps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import combinations
from typing import NamedTuple

Labels = tuple[str, ...]
# A number stands for the operand at that place.
Tree = int | tuple["Tree", "Tree"]
Pair = tuple[Tree, Tree]

MEASURES = ("flops", "memory")

# So many operands have at most 3 ** 8 ways to be split in two sets and one that is left: milliseconds.
MOST_EXACT = 8


class Cost(NamedTuple):
    """The cost of a contraction order: multiplications, and the elements of the largest intermediate tensor."""

    products: int
    largest: int

    def by(self, measure: str) -> tuple[int, int]:
        """Return a sort key, lower is better: the measure first, the other to decide between equals."""
        return (self.products, self.largest) if measure == "flops" else (self.largest, self.products)

    def after(self, other: Cost, products: int, elements: int) -> Cost:
        """Compute the cost of two subtrees and of contracting their results."""
        largest = max(self.largest, other.largest, elements)
        return Cost(self.products + other.products + products, largest)


class Network(NamedTuple):
    """A contraction: the names of each operand's dimensions, those of the result, and the size of each name."""

    labels: tuple[Labels, ...]
    output: Labels
    sizes: tuple[tuple[str, int], ...]

    def elements(self, names: frozenset[str]) -> int:
        """Count the index points that these names span."""
        return math.prod(size for name, size in self.sizes if name in names)

    def seen(self, places: Sequence[int]) -> frozenset[str]:
        """Return the names of a set of operands that are in the output or in another operand."""
        outside = set(self.output)
        for k, names in enumerate(self.labels):
            if k not in places:
                outside.update(names)
        return frozenset(n for k in places for n in self.labels[k] if n in outside)


def leaves(tree: Tree) -> tuple[int, ...]:
    """List the operands below a node, from left to right."""
    return (tree,) if isinstance(tree, int) else (*leaves(tree[0]), *leaves(tree[1]))


def cost_of(tree: Tree, network: Network) -> Cost:
    """Compute the cost of a tree; summing names that only one operand has costs nothing here."""
    if isinstance(tree, int):
        return Cost(0, 0)
    one, two = (network.seen(leaves(t)) for t in tree)
    own = network.elements(network.seen(leaves(tree))) if len(leaves(tree)) < len(network.labels) else 0
    parts = [cost_of(t, network) for t in tree]
    return parts[0].after(parts[1], network.elements(one | two), own)


@lru_cache(maxsize=1 << 12)
def best_tree(network: Network, measure: str = "flops") -> Pair:
    """Find the best tree of two or more operands: the optimum for up to `MOST_EXACT`, else a good one."""
    places = tuple(range(len(network.labels)))
    if len(places) <= MOST_EXACT:
        tree = _exact(places, network, measure)
    else:
        tree = _improved(_greedy(network), network, measure)
    if isinstance(tree, int):
        raise ValueError("an order is of two operands at least, not of one")
    return tree


def _exact(nodes: Sequence[Tree], network: Network, measure: str) -> Tree:
    """Find the best tree over these nodes, which are not changed; of equals the first."""
    full = (1 << len(nodes)) - 1
    below = {
        chosen: [p for k, node in enumerate(nodes) if chosen >> k & 1 for p in leaves(node)]
        for chosen in range(1, full + 1)
    }
    names = {chosen: network.seen(places) for chosen, places in below.items()}
    own = {chosen: network.elements(names[chosen]) for chosen in names}
    if len(below[full]) == len(network.labels):
        own[full] = 0
    best: dict[int, tuple[Cost, Tree]] = {1 << k: (Cost(0, 0), node) for k, node in enumerate(nodes)}
    for chosen in sorted(names, key=int.bit_count):
        part = (chosen - 1) & chosen
        while part:
            rest = chosen ^ part
            if part > rest:  # each split once
                (cost, left), (other, right) = best[part], best[rest]
                total = cost.after(other, network.elements(names[part] | names[rest]), own[chosen])
                if chosen not in best or total.by(measure) < best[chosen][0].by(measure):
                    best[chosen] = (total, (right, left))
            part = (part - 1) & chosen
    return best[full][1]


def _greedy(network: Network) -> Tree:
    """Contract the two with the smallest result relative to them, repeatedly (Gray and Kourtis, 2021, section 4.1)."""
    trees: list[Tree] = list(range(len(network.labels)))
    while len(trees) > 1:
        i, j = min(combinations(range(len(trees)), 2), key=partial(_growth, network, tuple(trees)))
        joined = (trees[i], trees[j])
        trees = [joined, *(t for k, t in enumerate(trees) if k not in (i, j))]
    return trees[0]


def _growth(network: Network, trees: Sequence[Tree], pair: tuple[int, int]) -> tuple[int, int]:
    """Compute how many more elements the result of two has than they have; then how many products it takes."""
    one, two = (leaves(trees[k]) for k in pair)
    a, b = network.seen(one), network.seen(two)
    made = network.elements(network.seen((*one, *two)))
    return made - network.elements(a) - network.elements(b), network.elements(a | b)


def _improved(tree: Tree, network: Network, measure: str) -> Tree:
    """Rearrange the branches just below each node of the tree optimally, until nothing improves."""
    while True:
        after = _rearranged(tree, network, measure)
        if cost_of(after, network).by(measure) >= cost_of(tree, network).by(measure):
            return tree
        tree = after


def _rearranged(tree: Tree, network: Network, measure: str) -> Tree:
    if isinstance(tree, int):
        return tree
    branches: list[Tree] = list(tree)
    while len(branches) < MOST_EXACT and any(not isinstance(b, int) for b in branches):
        widest = max(branches, key=lambda b: 0 if isinstance(b, int) else len(leaves(b)))
        assert not isinstance(widest, int)
        k = branches.index(widest)
        branches[k : k + 1] = widest
    return _exact([_rearranged(b, network, measure) for b in branches], network, measure)
