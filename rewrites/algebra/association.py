"""Contractions inside contractions: spread out, and put together in another order."""

from __future__ import annotations

from collections.abc import Mapping

from rewrites.algebra.contraction_terms import EINSUM
from rewrites.cell_form import Labels
from rewrites.contraction_form import in_order, network_of
from rewrites.contraction_order import Pair, best_tree
from rewrites.rule import Match, Op, Rule, Sizes, attr, computed, op, rest
from rewrites.sketch import Sketch
from teg.graph import Graph

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
    """The names of the inner contraction as the outer one may call them."""
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
    """Of three operands every order but the one there is, by the pair that comes first; of more the best ones."""
    sites = _flat_sites(m)
    if len({m.draft.tensors[t].dtype for t in sites}) > 1:
        return []
    if len(m["inner"]) == 2 and len(sites) == 3:
        return [pair for pair in ORDERS if pair != ("0,1" if m["after"] else "1,2")]
    return ["flops", "memory"] if len(sites) > 3 else []


def _associated(m: Match) -> Op:
    sites = _flat_sites(m)
    network = network_of(_flat_labels(m), m["output"], [m.draft.tensors[t].type for t in sites])
    tree = ORDERS[m.choice] if m.choice in ORDERS else best_tree(network, m.choice)
    return in_order(sites, network, tree, m.result().dtype)


def _flatten_example(size: Sizes) -> Graph:
    b = Sketch("flatten_contract")
    a, d = b.tensor("a", size(3), size(4)), b.tensor("d", size(2), 5)
    c = b.tensor("c", b.shape(a)[1], 5)
    return b.result(b.contract("kj,ij->ik", d, b.contract("ik,kj->ij", a, c)))


def _chain_example(size: Sizes) -> Graph:
    """A chain of three, and a contraction of three inside another."""
    b = Sketch("associate_contract")
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
)
