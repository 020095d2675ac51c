"""Maxima and minima of monotone expressions: the expression is computed only for the element that wins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import any_cell, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, tensor
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression

X = tensor("x")

# Functions of one argument that never fall, and that have a value for every number.
RISING = frozenset(
    (
        "exp",
        "exp2",
        "expm1",
        "tanh",
        "sigmoid",
        "erf",
        "atan",
        "sinh",
        "relu",
        "softplus",
        "floor",
        "ceil",
        "identity",
    )
)


def rises(expr: Expression) -> bool:
    """Return whether an expression is monotone non-decreasing in its one input."""
    name = expr[0]
    if name in RISING:
        return rises(expr[1])
    if name == "cast":
        return is_float(expr[1]) and rises(expr[2])
    if name in ("mul", "div"):
        return expr[2][0] == "const" and expr[2][1] > 0 and rises(expr[1])
    if name in ("add", "sub", "max", "min"):
        return expr[2][0] == "const" and rises(expr[1])
    return expr == ("input", 0)


def _commutes_with_reduction(m: Match) -> bool:
    """Return whether the cell is elementwise, a monotone expression of a float, and several elements are reduced."""
    names = tuple(n for n, _ in m["inner_dims"])
    plain = m["inner_labels"] == (names,) and m["monoid"] in ("max", "min") and len(m["output"]) < len(names)
    kinds = is_float(m.dtype("x")) and is_float(m["inner_dtype"]) and 0 not in m.shape("x")
    return plain and kinds and m["inner_expr"] != ("input", 0) and rises(m["inner_expr"])


def _of_reduced(m: Match) -> Mapping[str, Any]:
    shape, dtype = m.result()
    return pointwise(m["inner_expr"], (dim_labels(len(shape)),), shape, dtype)


def _example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("reduce_of_rising_cell")
    x = b.tensor("x", size(3), size(4), size(2))
    scores = b.cell(("mul", ("exp", ("input", 0)), ("const", 0.125)), {x: "abc"})
    labels = ("a", "b", "c")
    largest = b.op("reduce", scores, monoid="max", labels=labels, output=("c", "a"), keep=(1,))
    bent = b.cell(("tanh", ("sub", ("input", 0), ("const", 1.0))), {x: "abc"})
    return b.result(largest, b.op("reduce", bent, monoid="min", labels=labels, output=("b",)))


MONOTONE: tuple[Rule, ...] = (
    Rule(
        name="reduce_of_rising_cell",
        left=op(
            "reduce",
            any_cell(X, prefix="inner_").only_here(),
            monoid=attr("monoid"),
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
            scale=None,
        ),
        right=op(
            "cell",
            op(
                "reduce",
                X,
                monoid=attr("monoid"),
                labels=attr("labels"),
                output=attr("output"),
                keep=attr("keep"),
            ).named("winners"),
            given=_of_reduced,
        ),
        when=_commutes_with_reduction,
        doc="""
        The largest or smallest value of a function that never falls is its value of the largest or smallest.

        max_k f(x)  ->  f(max_k x)
        For floats, where f is made of rising functions, positive factors and shifts, and nobody else reads its values.
        """,
        source="a monotone function commutes with maxima and minima",
        example=_example,
        domain="real",
    ),
)
