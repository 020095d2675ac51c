"""Nested contractions: flattened, and reassociated into another contraction order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from tapestry.rewrites.algebra.contraction_terms import EINSUM
from tapestry.rewrites.cell_form import Labels
from tapestry.rewrites.contraction_form import in_order, network_of
from tapestry.rewrites.contraction_order import MEASURES, Cost, Network, Pair, best_tree, cost_of
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import all_above
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, computed, op, rest
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Graph

# So many contractions may lie inside each other.
DEEPEST = 12

INSIDE = op(
    "contract",
    rest("before"),
    op("contract", rest("inner"), labels=attr("inner_labels"), output=attr("inner_output")).only_here(),
    rest("after"),
    labels=attr("labels"),
    output=attr("output"),
)

# The orders of three operands, by the pair that comes first.
ORDERS: Mapping[str, Pair] = {"0,1": ((0, 1), 2), "0,2": ((0, 2), 1), "1,2": (0, (1, 2))}


def _inner_names(m: Match) -> Mapping[str, str]:
    """Map the names of the inner contraction to names that the outer one can use without conflicts."""
    outer: Labels = m["labels"][len(m["before"])]
    taken = {n for part in m["labels"] for n in part}
    names = dict(zip(m["inner_output"], outer, strict=True))
    for name in (n for part in m["inner_labels"] for n in part):
        fresh, k = name, 1
        while name not in names and fresh in taken:
            fresh, k = f"{name}_{k}", k + 1
        names.setdefault(name, fresh)
        taken.add(names[name])
    return names


def _flat_labels(m: Match) -> tuple[Labels, ...]:
    names, at = _inner_names(m), len(m["before"])
    inner = tuple(tuple(names[n] for n in part) for part in m["inner_labels"])
    return (*m["labels"][:at], *inner, *m["labels"][at + 1 :])


def _flat_sites(m: Match) -> tuple[str, ...]:
    return (*m["before"], *m["inner"], *m["after"])


def _other_orders(m: Match) -> list[str]:
    """List all contraction orders of three operands but the present, by first pair; of more, the best ones."""
    sites = _flat_sites(m)
    if len({m.edited.tensors[t].dtype for t in sites}) > 1:
        return []
    if len(m["inner"]) == 2 and len(sites) == 3:
        return [pair for pair in ORDERS if pair != ("0,1" if m["after"] else "1,2")]
    return ["flops", "memory"] if len(sites) > 3 else []


def _associated(m: Match) -> Op:
    sites = _flat_sites(m)
    network = network_of(_flat_labels(m), m["output"], [m.edited.tensors[t].type for t in sites])
    tree = ORDERS[m.choice] if m.choice in ORDERS else best_tree(network, m.choice)
    return in_order(sites, network, tree, m.result().dtype)


def _is_inner(edited: TrackedGraph, block: Block, root: Block) -> bool:
    """Return whether a contraction is read once, so that it may be computed in another way."""
    return all(len(edited.readers[t]) == 1 for t in block.outputs)


ALL_INSIDE = all_above("contract", ends=("contract",), most=DEEPEST, takes=_is_inner)
TREE = op("contract", ALL_INSIDE, labels=attr("labels"), output=attr("output"))


class FlatContraction(NamedTuple):
    """Nested contractions as one contraction of many operands, with their present cost."""

    sites: tuple[str, ...]
    network: Network
    present: Cost


def _spread(m: Match) -> FlatContraction:
    """Collect all operands of the matched contractions that none of these produces; rename inner names apart."""
    root, *inner = m.blocks
    producers = {b.outputs[0]: b for b in inner}
    sites: list[str] = []
    labels: list[Labels] = []

    def visit(block: Block, names: Mapping[str, str], path: str) -> None:
        for k, (site, own) in enumerate(zip(block.inputs, block.definition["labels"], strict=True)):
            called = tuple(names.get(n, f"{path}{n}") for n in own)
            if site in producers:
                producer = producers[site]
                outer = dict(zip(producer.definition["output"], called, strict=True))
                visit(producer, outer, f"{path}{k}.")
            else:
                sites.append(site)
                labels.append(called)

    visit(root, {n: n for n in m["output"]}, "sum.")
    types = [m.edited.tensors[t].type for t in sites]
    spaces = [b.definition.signature for b in m.blocks]
    products = sum(math.prod(s.index_range.shape) for s in spaces if s is not None)
    largest = max(math.prod(m.edited.tensors[t].shape) for t in producers)
    return FlatContraction(tuple(sites), network_of(labels, m["output"], types), Cost(products, largest))


def _is_inside(m: Match) -> bool:
    """Return whether the root itself is inside another contraction, from which all is then recomputed."""
    readers = m.edited.readers[m.roots[0].outputs[0]]
    return len(readers) == 1 and readers[0][0].operator == "contract"


def _better_orders(m: Match) -> list[str]:
    """List the measures by which a better order of three or more contractions exists than the present one."""
    if (
        len(m.blocks) < 3
        or _is_inside(m)
        or len({m.edited.tensors[t].dtype for b in m.blocks for t in b.inputs}) > 1
    ):
        return []
    found = _spread(m)
    return [
        measure
        for measure in MEASURES
        if cost_of(best_tree(found.network, measure), found.network).by(measure) < found.present.by(measure)
    ]


def _in_best_order(m: Match) -> Op:
    found = _spread(m)
    return in_order(found.sites, found.network, best_tree(found.network, m.choice), m.result().dtype)


def _tree_example(size: ExampleSizes) -> Graph:
    """Build an example: matrices multiplied by a vector, starting from the wrong end."""
    b = ExampleBuilder("best_order_of_contracts")
    n = size(3, least=2)
    ones = [b.tensor(name, n, n) for name in "abcd"]
    vector = b.tensor("v", n)
    pair = b.contract("ij,jk->ik", ones[0], ones[1])
    chain = b.contract("xy,yz->xz", b.contract("ij,kj->ki", ones[2], pair), ones[3])
    return b.result(b.contract("ki,i->k", chain, vector))


def _flatten_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("flatten_contract")
    a, d = b.tensor("a", size(3), size(4)), b.tensor("d", size(2), 5)
    c = b.tensor("c", b.shape(a)[1], 5)
    return b.result(b.contract("kj,ij->ik", d, b.contract("ik,kj->ij", a, c)))


def _chain_example(size: ExampleSizes) -> Graph:
    """Build an example: a chain of three, and a contraction of three inside another."""
    b = ExampleBuilder("associate_contract")
    a, c = b.tensor("a", size(3), size(4)), b.tensor("c", size(2), size(5))
    d = b.tensor("d", b.shape(a)[1], b.shape(c)[0])
    chain = b.contract("ij,jl->il", a, b.contract("jk,kl->jl", d, c))
    three = b.contract("kl,ij,jk->il", c, a, d)
    return b.result(chain, b.contract("il,l->i", three, b.tensor("e", b.shape(c)[1])))


ASSOCIATION: tuple[Rule, ...] = (
    Rule(
        name="flatten_contract",
        left=INSIDE,
        right=op(
            "contract",
            rest("before"),
            rest("inner"),
            rest("after"),
            labels=_flat_labels,
            output=attr("output"),
        ),
        doc="""
        A contraction inside another is spread out, so that its order may be chosen anew.

        (a b) c  ->  a b c
        Where nobody else reads the inner one. Not for saturation: the flat form is slower as it stands.
        """,
        source=EINSUM,
        example=_flatten_example,
        domain="real",
    ),
    Rule(
        name="associate_contract",
        left=INSIDE,
        right=computed(lambda m: [_associated(m)]),
        when=lambda m: bool(_other_orders(m)),
        choices=_other_orders,
        doc="""
        Two contractions, one inside the other, are done in another order.

        (a b) c  ->  a (b c)  or  (a c) b
        Where nobody else reads the inner one, and all is of one element type. Of three operands every other order
        is a choice; of more the one of fewest multiplications, and the one of the smallest intermediates.
        """,
        source=EINSUM,
        example=_chain_example,
        domain="real",
    ),
    Rule(
        name="best_order_of_contracts",
        left=TREE,
        right=computed(lambda m: [_in_best_order(m)]),
        when=lambda m: bool(_better_orders(m)),
        choices=_better_orders,
        doc="""
        Contractions inside each other, however deep, are done in the best order there is.

        ((a b) c) v  ->  a (b (c v)) of fewest multiplications, or whose largest intermediate is smallest
        For all of three contractions and more of one element type, each inner one read once, where the order is
        better than the present one. `associate_contract` leads there too, exchange by exchange, where each pays.
        """,
        source="Cormen et al., Introduction to Algorithms, section 15.2 (matrix-chain multiplication), for any names",
        example=_tree_example,
        domain="real",
    ),
)
