"""Rows of a tensor: helpers for normalizations, softmax and reductions along some of its dimensions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import INPUT, Labels, dim_labels, pointwise
from tapestry.rewrites.rule import Match, Op, Term, case, op, tensor
from tapestry.teg.dtypes import HALF, accumulation
from tapestry.teg.operators.expressions import Expression

X = tensor("x")
DIFFERENCE = ("sub", ("input", 0), ("input", 1))


def wide(m: Match) -> str:
    """Return the element type in which sums over `x` are accumulated."""
    return accumulation(m.dtype("x"))


def names_of(m: Match) -> Labels:
    """Return the names of the dimensions of `x`."""
    return dim_labels(len(m.shape("x")))


def kept_names(m: Match) -> Labels:
    """Return the names of the dimensions that the attribute `axes` leaves parallel."""
    names = names_of(m)
    whole = {a % len(names) for a in m["axes"]}
    return tuple(n for k, n in enumerate(names) if k not in whole)


# `x` in the element type of sums: halves are widened once, the others read as they are.
WIDE_X = case(
    lambda m: m.dtype("x") in HALF,
    op("cell", X, given=lambda m: pointwise(INPUT, (names_of(m),), m.shape("x"), wide(m))).named("wide"),
    X,
)


def row_cell(m: Match, expr: Expression, dtype: str, row_reads: int = 1) -> Mapping[str, Any]:
    """Build the attributes of a cell over `x` and one value per row (`row_reads` of them)."""
    return pointwise(expr, (names_of(m), *(kept_names(m),) * row_reads), m.shape("x"), dtype)


def reduce_rows(term: Term, monoid: str, role: str, scale: Any = None) -> Op:
    """Build a reduction of the normalized dimensions."""
    return op("reduce", term, monoid=monoid, labels=names_of, output=kept_names, scale=scale).named(role)


def mean_scale(m: Match) -> float:
    """Compute one over the number of elements of a row."""
    return 1.0 / int(math.prod(m.shape("x")[a] for a in m["axes"]))
