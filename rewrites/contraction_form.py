"""Contractions as values: their network of names, and the blocks that compute it in the order of a tree."""

from __future__ import annotations

from collections.abc import Sequence

from rewrites.contraction_order import Labels, Network, Pair, Tree, leaves
from rewrites.rule import Op, Term, op, pick
from teg.graph import TensorType


def network_of(labels: Sequence[Labels], output: Labels, types: Sequence[TensorType]) -> Network:
    """The network of a contraction of operands of these types; names in order of appearance."""
    sizes = {
        name: size
        for names, kind in zip(labels, types, strict=True)
        for name, size in zip(names, kind.shape, strict=True)
    }
    return Network(tuple(tuple(names) for names in labels), tuple(output), tuple(sizes.items()))


def in_order(sites: Sequence[str], network: Network, tree: Pair) -> Op:
    """Right side: the contraction of these tensors, pair by pair; names only one operand has are summed first."""
    term, _ = _node(sites, network, tree, network.output)
    assert isinstance(term, Op)
    return term


def _node(
    sites: Sequence[str], network: Network, tree: Tree, output: Labels | None = None
) -> tuple[Term, Labels]:
    """The term of a node and the names of its dimensions, in this order if one is asked for."""
    if isinstance(tree, int):
        return _leaf(sites[tree], network, tree)
    (one, first), (two, second) = (_node(sites, network, part) for part in tree)
    if output is None:
        seen = network.seen(leaves(tree))
        output = tuple(n for n in dict.fromkeys((*first, *second)) if n in seen)
    return op("contract", one, two, labels=(first, second), output=output).named("pair"), output


def _leaf(site: str, network: Network, place: int) -> tuple[Term, Labels]:
    names, seen = network.labels[place], network.seen([place])
    term, kept = pick(lambda _: [site]), tuple(n for n in names if n in seen)
    return (term if kept == names else op("contract", term, labels=(names,), output=kept).named("own")), kept
