"""Sums of contractions and contractions of sums."""

from __future__ import annotations

from tapestry.rewrites.algebra.contraction_terms import EINSUM, V, W, X, agree, contraction
from tapestry.rewrites.cell_form import ADD, ADD_OR_SUBTRACT, MULTIPLY, Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op
from tapestry.teg.graph import Graph


def _sum_of_both(m: Match) -> bool:
    """Return whether the cell adds or subtracts elementwise two contractions that agree up to names."""
    if m["expr"] not in ADD_OR_SUBTRACT:
        return False
    names = tuple(name for name, _ in m["dims"])
    same = m["labels"] == (names, names) and m.type("w") == m.type("v")
    return bool(same and agree(m) and m["dtype"] == m.result().dtype and m.dtype("y1") == m["dtype"])


def _is_sum_of_products(m: Match) -> bool:
    labels = m["cell_labels"]
    named = {n for part in labels for n in part}
    plain = not m["keep"] and m["scale"] in (None, 1.0) and "" not in named
    kinds = {t.dtype for t in (m.type("x"), m.type("w"))}
    return bool(plain and named == {n for n, _ in m["cell_dims"]} and kinds == {m["cell_dtype"]} != {"bool"})


def _product_names(m: Match, names: Labels) -> Labels:
    """Translate the reduction's names to those of the cell."""
    return tuple(m["cell_dims"][m["labels"].index(n)][0] for n in names)


def _factor_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("factor_contracts")
    x = b.tensor("x", size(3), size(4))
    w, v = (b.tensor(n, b.shape(x)[1], 5, role="parameter") for n in "wv")
    one, two = b.contract("mk,kn->mn", x, w), b.contract("ba,cb->ca", v, x)
    w_shape = b.shape(w)
    other = b.tensor("u", *w_shape, role="parameter")
    three = b.contract("ik,kj->ij", x, other)
    four, five = (b.contract("mk,kn->mn", x, b.tensor(n, *w_shape)) for n in "st")
    difference = b.cell(("sub", ("input", 1), ("input", 0)), {four: "mn", five: "mn"})
    return b.result(b.cell(ADD, {one: "mn", three: "mn"}), two, difference)


def _product_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("contract_of_product")
    x = b.tensor("x", size(3), size(4))
    product = b.cell(MULTIPLY, {x: "mk", b.tensor("w", b.shape(x)[1], size(5)): "kn"})
    return b.result(b.op("reduce", product, monoid="sum", labels=("a", "b", "c"), output=("c", "a")))


FACTORING: tuple[Rule, ...] = (
    Rule(
        name="factor_contracts",
        left=op(
            "cell",
            contraction("y1", "l1", "o1", X, W).only_here(),
            contraction("y2", "l2", "o2", X, V).only_here(),
            expr=attr("expr"),
            labels=attr("labels"),
            dims=attr("dims"),
            dtype=attr("dtype"),
        ),
        right=op(
            "contract",
            X,
            op(
                "cell",
                W,
                V,
                given=lambda m: pointwise(
                    m["expr"], (dim_labels(len(m.shape("w"))),) * 2, m.shape("w"), m.dtype("w")
                ),
            ).named("sum"),
            labels=attr("l1"),
            output=attr("o1"),
        ),
        when=_sum_of_both,
        doc="""
        Two contractions of one tensor that are added or subtracted become one.

        x w + x v  ->  x (w + v)  and  x w - x v  ->  x (w - v)
        Where both say the same but for names, and nobody else reads them.
        """,
        source=EINSUM,
        example=_factor_example,
        domain="real",
    ),
    Rule(
        name="contract_of_product",
        left=op(
            "reduce",
            op(
                "cell",
                X,
                W,
                expr=MULTIPLY,
                labels=attr("cell_labels"),
                dims=attr("cell_dims"),
                dtype=attr("cell_dtype"),
            ).only_here(),
            monoid="sum",
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        right=op(
            "contract", X, W, labels=attr("cell_labels"), output=lambda m: _product_names(m, m["output"])
        ),
        when=_is_sum_of_products,
        doc="""
        A sum of products is a contraction.

        sum_k (x[m, k] w[k, n])  ->  x w
        Where every dimension of the product is named by an operand, and nobody else reads it. Not for
        saturation, which would undo every `expand_contract`.
        """,
        source="definition of a contraction",
        example=_product_example,
        domain="real",
    ),
)
