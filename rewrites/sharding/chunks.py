"""A contraction in pieces: while one piece is on its way, the next is computed.

Pieces meet in a concatenation, and the laws of selectors take it from there: `cell_of_concat` and
`contract_of_concat` carry the pieces on through what follows, `cut_cell` and `cut_contract` back to what is before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rewrites.rule import Match, Op, Rule, Sizes, attr, computed, op, rest
from rewrites.selectors.cuts import cut_of
from rewrites.sketch import Sketch, replaced_at
from teg.graph import Graph
from teg.operators.selectors import sliced

COUNTS = (2, 4)


def _chosen(m: Match) -> tuple[str, int]:
    name, _, count = m.choice.rpartition(":")
    return name, int(count)


def _choices(m: Match) -> list[str]:
    pairs = zip(m["output"], m.result().shape, strict=True)
    return [f"{n}:{count}" for n, size in pairs for count in COUNTS if size >= count * count]


def _pieces(m: Match) -> Sequence[Op]:
    (name, count), output = _chosen(m), m["output"]
    axis, shape = output.index(name), m.result().shape
    edges = [shape[axis] * k // count for k in range(count + 1)]
    pieces = []
    for start, end in pairwise(edges):
        begin = replaced_at((0,) * len(shape), axis, start)
        view = sliced(shape, begin, replaced_at(shape, axis, end))
        found = cut_of(m, view, output, m["xs"], m["labels"])
        pieces.append(op("contract", *found.terms(m), labels=m["labels"], output=output).named("piece"))
    return [op("concat", *pieces, axis=axis)]


def _example(size: Sizes) -> Graph:
    b = Sketch("chunk")
    x = b.tensor("x", size(4, least=4), size(3))
    w = b.tensor("w", b.shape(x)[1], size(4), role="parameter")
    return b.result(b.contract("mk,kn->mn", x, w))


CHUNKS: tuple[Rule, ...] = (
    Rule(
        name="chunk",
        left=op("contract", rest("xs"), labels=attr("labels"), output=attr("output")),
        right=computed(_pieces),
        when=lambda m: len(m["xs"]) == 2,
        choices=_choices,
        doc="""
        A contraction is computed in pieces, so that copies of one overlap with computing another.

        x w  ->  concat(x[:m/2] w, x[m/2:] w)
        Of two operands, along a dimension of the result, in as many pieces as the choice `name:count` says.
        """,
        source="Wang et al., Overlap Communication with Dependent Computation via Decomposition, ASPLOS 2023",
        example=_example,
        domain="real",
    ),
)
