"""Expansion of contractions: into products and sums, and of many operands pair by pair."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations
from typing import Any

from tapestry.rewrites.cell_form import INPUT, MULTIPLY, Labels, dim_labels, pointwise
from tapestry.rewrites.contraction_form import in_order, network_of
from tapestry.rewrites.contraction_order import MEASURES, best_tree
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, case, computed, op, pick, rest
from tapestry.teg.dtypes import HALF, accumulation
from tapestry.teg.graph import Graph

# An intermediate tensor is small where it has at most so many elements per element read and written.
SMALL_FACTOR = 4


def _sizes(m: Match) -> dict[str, int]:
    """Return the size of every name of a contraction."""
    return dict(network_of(m["labels"], m["output"], m.types("xs")).sizes)


def _is_small_product(m: Match) -> bool:
    """Return whether the product of two operands is not much larger than all that is read and written."""
    if len(m["xs"]) != 2 or len({t.dtype for t in m.types("xs")}) != 1:
        return False
    sizes = _sizes(m)
    moved = sum(math.prod(t.shape) for t in (*m.types("xs"), m.result()))
    return math.prod(sizes.values()) <= SMALL_FACTOR * moved and len(sizes) > len(m["output"])


def _product(m: Match) -> Mapping[str, Any]:
    wide = accumulation(m.types("xs")[0].dtype)
    widened = ("mul", ("cast", wide, ("input", 0)), ("cast", wide, ("input", 1)))
    expr = widened if m.result().dtype in HALF else MULTIPLY
    return {"expr": expr, "labels": m["labels"], "dims": tuple(_sizes(m).items()), "dtype": wide}


SUMMED = op(
    "reduce",
    op("cell", rest("xs"), given=_product).named("product"),
    monoid="sum",
    labels=lambda m: tuple(_sizes(m)),
    output=attr("output"),
).named("sum")


def _narrowed(m: Match) -> Mapping[str, Any]:
    shape, dtype = m.result()
    return pointwise(INPUT, (dim_labels(len(shape)),), shape, dtype)


def _pair(m: Match) -> tuple[int, int]:
    i, j = m.choice.split(",")
    return int(i), int(j)


def _pairs(m: Match) -> list[str]:
    """List the pairs with a name in common; all pairs if there are none."""
    pairs = list(combinations(range(len(m["xs"])), 2))
    common = [(i, j) for i, j in pairs if set(m["labels"][i]) & set(m["labels"][j])]
    return [f"{i},{j}" for i, j in common or pairs]


def _others(m: Match) -> list[int]:
    return [k for k in range(len(m["xs"])) if k not in _pair(m)]


def _pair_output(m: Match) -> Labels:
    """Return the names of a pair that occur outside it."""
    outside = {*m["output"], *(n for k in _others(m) for n in m["labels"][k])}
    i, j = _pair(m)
    return tuple(n for n in dict.fromkeys((*m["labels"][i], *m["labels"][j])) if n in outside)


def _best_order(m: Match) -> Op:
    network = network_of(m["labels"], m["output"], m.types("xs"))
    return in_order(m["xs"], network, best_tree(network, m.choice), m.result().dtype)


def _is_ambiguous(m: Match) -> bool:
    """Return whether there is an order to choose: three or more operands, of one element type."""
    return len(m["xs"]) > 2 and len({t.dtype for t in m.types("xs")}) == 1


def _private_operands(m: Match) -> list[str]:
    """List the operands, by number, with a name that neither the output nor another operand has."""
    network = network_of(m["labels"], m["output"], m.types("xs"))
    return [str(k) for k, names in enumerate(network.labels) if len(network.seen([k])) < len(names)]


def _own_names(m: Match) -> Labels:
    """Return the chosen operand's names that are kept."""
    k = int(m.choice)
    seen = network_of(m["labels"], m["output"], m.types("xs")).seen([k])
    return tuple(n for n in m["labels"][k] if n in seen)


def _product_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("expand_contract")
    x = b.tensor("x", size(3), size(4))
    return b.result(b.contract("bk,k->b", x, b.tensor("w", b.shape(x)[1])))


def _order_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("order_contract")
    a, c = b.tensor("a", size(3), size(2)), b.tensor("c", size(4), size(5))
    d = b.tensor("d", b.shape(a)[1], b.shape(c)[0])
    return b.result(b.contract("ij,kl,jk->li", a, c, d))


def _best_example(size: ExampleSizes) -> Graph:
    """Build an example: a batch name, a name of three operands, one summed at once, and an outer product."""
    b = ExampleBuilder("best_order_of_contract")
    a = b.tensor("a", size(2), size(3), size(4))
    c = b.tensor("c", b.shape(a)[0], b.shape(a)[2], size(5))
    d, e = b.tensor("d", b.shape(a)[2], size(2)), b.tensor("e", size(3))
    return b.result(b.contract("bij,bjk,jl,m->blim", a, c, d, e))


def _private_operands_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("sum_before_contract")
    x = b.tensor("x", size(3), size(4), size(2))
    return b.result(b.contract("mks,kn->nm", x, b.tensor("w", b.shape(x)[1], size(5))))


CONTRACTION: tuple[Rule, ...] = (
    Rule(
        name="expand_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=case(
            lambda m: m.result().dtype in HALF, op("cell", SUMMED, given=_narrowed).named("narrow"), SUMMED
        ),
        when=_is_small_product,
        doc="""
        A contraction of two operands becomes their product and its sum.

        x w  ->  sum_k (x[m, k] w[k, n])
        Only where the product is small against what is read and written anyhow, as for matrix times vector.
        """,
        source="definition of a contraction",
        example=_product_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="order_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=op(
            "contract",
            op(
                "contract",
                pick(lambda m: [m["xs"][k] for k in _pair(m)]),
                labels=lambda m: [m["labels"][k] for k in _pair(m)],
                output=_pair_output,
            ).named("pair"),
            pick(lambda m: [m["xs"][k] for k in _others(m)]),
            labels=lambda m: [_pair_output(m), *(m["labels"][k] for k in _others(m))],
            output=attr("output"),
        ),
        when=_is_ambiguous,
        choices=_pairs,
        doc="""
        A contraction of many operands begins with two of them; which two is the choice.

        a b c  ->  (a b) c  or  (a c) b  or  a (b c)
        For three operands and more of one element type; two without a common dimension only where no two
        have one. Names that nobody else has are summed at once.
        """,
        source="Lam, Sadayappan and Wenger, On Optimizing a Class of Multi-Dimensional Loops with Reductions, 1997",
        example=_order_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="best_order_of_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=computed(lambda m: [_best_order(m)]),
        when=_is_ambiguous,
        choices=lambda m: MEASURES,
        doc="""
        A contraction of many operands is done pair by pair in the best order there is.

        a b c d  ->  (a (b c)) d  of fewest multiplications, or whose largest intermediate is smallest
        For three operands and more of one element type: the best order for up to eight operands, by dynamic
        programming, and a good one for more. `order_contract` leads there too, in as many moves as pairs.
        """,
        source="Pfeifer, Haegeman and Verstraete, Faster identification of optimal contraction sequences, 2014",
        example=_best_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="sum_before_contract",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=op(
            "contract",
            pick(lambda m: m["xs"][: int(m.choice)]),
            op(
                "contract",
                pick(lambda m: [m["xs"][int(m.choice)]]),
                labels=lambda m: [m["labels"][int(m.choice)]],
                output=_own_names,
            ).named("own"),
            pick(lambda m: m["xs"][int(m.choice) + 1 :]),
            labels=lambda m: replaced_at(m["labels"], int(m.choice), _own_names(m)),
            output=attr("output"),
        ),
        when=lambda m: len(m["xs"]) > 1 and bool(_private_operands(m)),
        choices=_private_operands,
        doc="""
        What only one operand of a contraction is summed over is summed first; which operand is the choice.

        sum_{k, s} x[m, k, s] w[k, n]  ->  sum_k (sum_s x[m, k, s]) w[k, n]
        Where an operand has a dimension that neither the result nor another operand has.
        """,
        source="distributive law",
        example=_private_operands_example,
        kind="semantic",
        domain="real",
    ),
)
