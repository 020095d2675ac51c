"""Scans in pieces, whose lengths are split over devices, and as matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewrites.cell_form import Labels, dim_labels
from rewrites.expansions.rows import X
from rewrites.rule import Match, Op, Rule, Sizes, attr, computed, op
from rewrites.sketch import Sketch, replaced_at
from teg.dtypes import is_float
from teg.graph import Graph

# How two partial results are combined, by monoid; a sum in the logarithmic domain is no function of a cell.
COMBINED: Mapping[str, str] = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}

PIECES = (2, 4, 8, 16)

# The matrix of a scan has the square of its length.
MOST_ROWS = 256

SCAN = op(
    "scan", X, axis=attr("axis"), monoid=attr("monoid"), exclusive=attr("exclusive"), reverse=attr("reverse")
)


def _pieces(m: Match) -> list[str]:
    """The numbers of pieces that the length is a multiple of, two elements each at least."""
    length = m.shape("x")[m["axis"]]
    return [str(p) for p in PIECES if length % p == 0 and length >= 2 * p]


def _in_pieces(m: Match) -> Op:
    axis, shape, pieces = m["axis"], m.shape("x"), int(m.choice)
    split = (*shape[:axis], pieces, shape[axis] // pieces, *shape[axis + 1 :])
    names = dim_labels(len(split))
    outer = (*names[: axis + 1], *names[axis + 2 :])
    direction: dict[str, Any] = {"monoid": m["monoid"], "reverse": m["reverse"]}
    parts = op("reshape", X, shape=split).named("pieces")
    inside = op("scan", parts, axis=axis + 1, exclusive=m["exclusive"], **direction).named("inside")
    totals = op("reduce", parts, monoid=m["monoid"], labels=names, output=outer).named("totals")
    before = op("scan", totals, axis=axis, exclusive=True, **direction).named("before")
    combined = op(
        "cell",
        inside,
        before,
        expr=(COMBINED[m["monoid"]], ("input", 0), ("input", 1)),
        labels=(names, outer),
        dims=tuple(zip(names, split, strict=True)),
        dtype=m.dtype("x"),
    ).named("combined")
    return op("reshape", combined, shape=shape).named("joined")


def _names(m: Match) -> Labels:
    return dim_labels(len(m.shape("x")))


def _triangle(m: Match) -> Mapping[str, Any]:
    """1 where element `from` counts for the result at `to`: no operand, a function of coordinates."""
    length = m.shape("x")[m["axis"]]
    comparison = ("lt" if m["exclusive"] else "le", ("index", "from"), ("index", "to"))
    if m["reverse"]:
        comparison = (comparison[0], comparison[2], comparison[1])
    dims = (("from", length), ("to", length))
    return {"expr": ("cast", m.dtype("x"), comparison), "labels": (), "dims": dims, "dtype": m.dtype("x")}


def _example(name: str, *monoids: str) -> Any:
    def example(size: Sizes) -> Graph:
        b = Sketch(name)
        x = b.tensor("x", size(3), 4 * size(2), size(2))
        results = [b.op("scan", x, axis=1, monoid=kind) for kind in monoids]
        results.append(b.op("scan", x, axis=1, monoid="sum", exclusive=True, reverse=True))
        return b.result(*results)

    return example


SCANS: tuple[Rule, ...] = (
    Rule(
        name="split_scan",
        left=SCAN,
        right=computed(lambda m: [_in_pieces(m)]),
        when=lambda m: m["monoid"] in COMBINED and m.dtype("x") != "bool" and bool(_pieces(m)),
        choices=_pieces,
        doc="""
        A scan becomes scans of pieces, and a scan of what the pieces amount to; how many pieces is the choice.

        scan(x)  ->  scan(piece) + before[piece] with before = exclusive scan(sum(piece))
        For monoids that cells can combine, in equal pieces. A scan needs its length whole; pieces do not.
        """,
        source="Blelloch, Prefix Sums and Their Applications, 1990, section 1.2",
        example=_example("split_scan", "sum", "max"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="contract_of_scan",
        left=SCAN,
        right=op(
            "contract",
            X,
            op("cell", given=_triangle).named("triangle"),
            labels=lambda m: (replaced_at(_names(m), m["axis"], "from"), ("from", "to")),
            output=lambda m: replaced_at(_names(m), m["axis"], "to"),
        ),
        when=lambda m: (
            m["monoid"] == "sum" and is_float(m.dtype("x")) and m.shape("x")[m["axis"]] <= MOST_ROWS
        ),
        doc="""
        A short running sum becomes a matrix product with a triangle of ones.

        scan(x)  ->  x[from] triangle[from, to]
        For sums over few elements, of finite floats, which no rule can see: what does not count for a result is
        multiplied by zero, so that one infinity would make every result no number.
        """,
        source="Dakkak et al., Accelerating Reduction and Scan Using Tensor Core Units, ICS 2019, section 4",
        example=_example("contract_of_scan", "sum"),
        kind="semantic",
        domain="real",
    ),
)
