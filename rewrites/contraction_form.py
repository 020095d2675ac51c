"""Contractions as values: their network of names, and the blocks that compute it in the order of a tree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tapestry.rewrites.cell_form import MULTIPLY
from tapestry.rewrites.contraction_order import Labels, Network, Pair, Tree, leaves
from tapestry.rewrites.rule import Op, Term, op, pick
from tapestry.teg.graph import TensorType


def network_of(labels: Sequence[Labels], output: Labels, types: Sequence[TensorType]) -> Network:
    """Build the network of a contraction of operands of these types; names in order of appearance."""
    sizes = {
        name: size
        for names, kind in zip(labels, types, strict=True)
        for name, size in zip(names, kind.shape, strict=True)
    }
    return Network(tuple(tuple(names) for names in labels), tuple(output), tuple(sizes.items()))


def in_order(sites: Sequence[str], network: Network, tree: Pair, dtype: str) -> Op:
    """Build the right-hand side: the contraction of these tensors, pair by pair.

    Names that only one operand has are summed first; a pair that sums nothing is a cell, which others can fuse.
    """
    term, _ = _Terms(sites, network, dtype).node(tree, network.output)
    assert isinstance(term, Op)
    return term


class _Terms(NamedTuple):
    """The nodes of a tree as terms, each with the names of its dimensions."""

    sites: Sequence[str]
    network: Network
    dtype: str

    def node(self, tree: Tree, output: Labels | None = None) -> tuple[Term, Labels]:
        """Build the term of a node, its dimensions in the order of `output` if that is requested."""
        if isinstance(tree, int):
            return self.leaf(tree)
        (one, first), (two, second) = (self.node(part) for part in tree)
        both = tuple(dict.fromkeys((*first, *second)))
        if output is None:
            seen = self.network.seen(leaves(tree))
            output = tuple(n for n in both if n in seen)
        if len(output) < len(both):
            return op("contract", one, two, labels=(first, second), output=output).named("pair"), output
        sizes = dict(self.network.sizes)
        dims = tuple((n, sizes[n]) for n in output)
        product = op("cell", one, two, expr=MULTIPLY, labels=(first, second), dims=dims, dtype=self.dtype)
        return product.named("product"), output

    def leaf(self, place: int) -> tuple[Term, Labels]:
        """Build the term of an operand, with the names summed that occur nowhere else."""
        site, names, seen = self.sites[place], self.network.labels[place], self.network.seen([place])
        term, kept = pick(lambda _: [site]), tuple(n for n in names if n in seen)
        if kept == names:
            return term, kept
        return op("contract", term, labels=(names,), output=kept).named("own"), kept
