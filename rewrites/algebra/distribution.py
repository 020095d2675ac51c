"""Contractions of sums split into sums, and sums of contractions combined into one longer sum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.algebra.contraction_terms import EINSUM, V, W, X, Y, agree, contraction
from tapestry.rewrites.cell_form import ADD, ADD_OR_SUBTRACT, Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder, replaced_at, sure
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, TensorPattern, attr, op, rest
from tapestry.teg.graph import Graph

SUBTRACT = ADD_OR_SUBTRACT[1]


def _joined_names(m: Match) -> list[str]:
    """List the summed names along which both operands can be concatenated: all their other sizes agree."""
    if not agree(m) or len({m.dtype(t) for t in ("x", "y", "w", "v")}) > 1:
        return []
    pairs = (("x", "y", m["l1"][0]), ("w", "v", m["l1"][1]))
    return [
        name
        for name in m["l1"][0]
        if name in m["l1"][1]
        and name not in m["o1"]
        and all(
            a == b or n == name
            for one, two, names in pairs
            for a, b, n in zip(m.shape(one), m.shape(two), names, strict=True)
        )
    ]


def _adds_in_order(m: Match) -> bool:
    """Return whether the cell adds the two contractions element by element."""
    names = tuple(name for name, _ in m["dims"])
    return bool(m["labels"] == (names, names) and m.dtype("y1") == m["dtype"] == m.dtype("y2"))


def _together(one: TensorPattern, two: TensorPattern, side: int) -> Op:
    return op("concat", one, two, axis=lambda m: m["l1"][side].index(m.choice)).named("joined")


def _term_names(m: Match) -> tuple[Labels, Labels] | None:
    """Return the contraction's names of the dimensions of both terms; None if a size of 1 is stretched."""
    outer = m["labels"][len(m["before"])]
    names = dict(zip((n for n, _ in m["dims"]), outer, strict=True))
    if any(not n for part in m["cell_labels"] for n in part):
        return None
    one, two = (tuple(names[n] for n in part) for part in m["cell_labels"])
    return one, two


def _distributes(m: Match) -> bool:
    """Return whether every summed dimension of the contraction remains for each term with the others.

    A term that lacks one which no other operand has would be counted once, not once per element. A term is broadcast
    along the dimensions of the result that it lacks, there as here; one term has them all.
    """
    parts = _term_names(m)
    kinds = {t.dtype for t in (*m.types("before"), *m.types("after"), m.type("w"), m.type("v"))}
    if parts is None or m["expr"] not in ADD_OR_SUBTRACT or kinds != {m["cell_dtype"]}:
        return False
    lacking = [_lacking(m, part) for part in parts]
    return len(m["labels"]) > 1 and set() in lacking and all(names <= {*m["output"]} for names in lacking)


def _lacking(m: Match, part: Labels) -> set[str]:
    """Return the dimensions of the contraction that neither a term of the sum nor any other operand has."""
    others = {n for k, names in enumerate(m["labels"]) if k != len(m["before"]) for n in names}
    return {n for names in m["labels"] for n in names} - {*part, *others}


def _output(m: Match, k: int) -> Labels:
    """Return the output dimensions of the contraction of the k-th term."""
    lacking = _lacking(m, sure(_term_names(m))[k])
    return tuple(n for n in m["output"] if n not in lacking)


def _part(k: int, term: TensorPattern) -> Op:
    return op(
        "contract",
        rest("before"),
        term,
        rest("after"),
        labels=lambda m: replaced_at(m["labels"], len(m["before"]), sure(_term_names(m))[k]),
        output=lambda m: _output(m, k),
    ).named("part")


def _summed_parts(m: Match) -> Mapping[str, Any]:
    shape, dtype = m.result()
    names = dict(zip(m["output"], dim_labels(len(shape)), strict=True))
    labels = tuple(tuple(names[n] for n in _output(m, k)) for k in range(2))
    return pointwise(m["expr"], labels, shape, dtype)


def _join_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("join_contracts")
    x = b.tensor("x", size(3), size(4))
    y = b.tensor("y", b.shape(x)[0], size(2))
    w, v = (b.tensor(n, b.shape(t)[1], 5, role="parameter") for n, t in (("w", x), ("v", y)))
    one, two = b.contract("mk,kn->mn", x, w), b.contract("jn,mj->mn", v, y)
    return b.result(b.cell(ADD, {one: "mn", two: "mn"}))


def _distribute_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("distribute_contract")
    x = b.tensor("x", size(3), size(4))
    mean = b.tensor("mean", b.shape(x)[0])
    centered = b.cell(SUBTRACT, {x: "mk", mean: "m"})
    biased = b.cell(ADD, {x: "mk", b.tensor("bias", b.shape(x)[1], role="parameter"): "k"})
    w, v = (b.tensor(n, b.shape(x)[1], size(5)) for n in "wv")
    return b.result(b.contract("kn,mk->nm", w, centered), b.contract("mk,kn->mn", biased, v))


DISTRIBUTION: tuple[Rule, ...] = (
    Rule(
        name="join_contracts",
        left=op(
            "cell",
            contraction("y1", "l1", "o1", X, W).only_here(),
            contraction("y2", "l2", "o2", Y, V).only_here(),
            expr=ADD,
            labels=attr("labels"),
            dims=attr("dims"),
            dtype=attr("dtype"),
        ),
        right=op("contract", _together(X, Y, 0), _together(W, V, 1), labels=attr("l1"), output=attr("o1")),
        when=lambda m: _adds_in_order(m) and bool(_joined_names(m)),
        choices=_joined_names,
        doc="""
        Two contractions that are added become one over a longer sum.

        x w + y v  ->  concat(x, y) concat(w, v)
        Where both say the same but for names, agree in all sizes but that of one summed dimension, and nobody
        else reads them. Blocks of a matrix product are multiplied one by one.
        """,
        source="Golub and Van Loan, Matrix Computations, section 1.3 (block matrix multiplication)",
        example=_join_example,
        domain="real",
    ),
    Rule(
        name="distribute_contract",
        left=op(
            "contract",
            rest("before"),
            op(
                "cell",
                W,
                V,
                expr=attr("expr"),
                labels=attr("cell_labels"),
                dims=attr("dims"),
                dtype=attr("cell_dtype"),
            ).only_here(),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op("cell", _part(0, W), _part(1, V), given=_summed_parts),
        when=_distributes,
        doc="""
        A contraction of a sum or difference becomes that of two contractions.

        x (w + v)  ->  x w + x v
        Where nobody else reads the sum. A term that was broadcast in it, as a mean that is taken away or a bias, meets
        only what it varies along. Not for saturation: it reads the other operands twice.
        """,
        source=EINSUM,
        example=_distribute_example,
        domain="real",
    ),
)
