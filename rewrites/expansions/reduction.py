"""Reductions in several steps, and means as sums."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import INPUT, Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.rows import X
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, Term, attr, op
from tapestry.teg.graph import Graph


def _reduced(m: Match) -> list[str]:
    return [n for n in m["labels"] if n not in m["output"]]


def _without_choice(m: Match) -> Labels:
    return tuple(n for n in m["labels"] if n != m.choice)


def _scaled(m: Match) -> Mapping[str, Any]:
    shape, dtype = m.type("x")
    return pointwise(("mul", INPUT, ("const", m["scale"])), (dim_labels(len(shape)),), shape, dtype)


def _reduce(of: Term, monoid: Any, scale: Any) -> Op:
    return op(
        "reduce",
        of,
        monoid=monoid,
        labels=attr("labels"),
        output=attr("output"),
        keep=attr("keep"),
        scale=scale,
    )


def _split_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("split_reduce")
    x = b.tensor("x", size(3), size(4), size(2))
    means = b.op("reduce", x, monoid="sum", labels=("a", "b", "c"), output=("b",), keep=(0,), scale=0.125)
    peaks = b.op("reduce", x, monoid="max", labels=("a", "b", "c"), output=())
    return b.result(means, peaks)


def _mean_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("expand_mean")
    x = b.tensor("x", size(3), size(4))
    mean = b.op("reduce", x, monoid="sum", labels=("a", "b"), output=("b",), keep=(1,), scale=0.25)
    return b.result(mean)


STEPS: tuple[Rule, ...] = (
    Rule(
        name="split_reduce",
        left=_reduce(X, attr("monoid"), attr("scale")),
        right=op(
            "reduce",
            op("reduce", X, monoid=attr("monoid"), labels=attr("labels"), output=_without_choice).named(
                "first"
            ),
            monoid=attr("monoid"),
            labels=_without_choice,
            output=attr("output"),
            keep=attr("keep"),
            scale=attr("scale"),
        ),
        when=lambda m: len(_reduced(m)) > 1,
        choices=_reduced,
        doc="""
        A reduction of several dimensions becomes two steps; which dimension goes first is the choice.

        sum_{a, b} x  ->  sum_b (sum_a x)  or  sum_a (sum_b x)
        For two dimensions and more. A monoid does not care where brackets stand; the scale comes last.
        """,
        source="definition of a monoid",
        example=_split_example,
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_mean",
        left=_reduce(X, "sum", attr("scale")),
        right=_reduce(op("cell", X, given=_scaled).named("share"), "sum", None),
        when=lambda m: m["scale"] not in (None, 1.0),
        doc="""
        A mean becomes the sum of each element's share, and the scale may move into what makes them.

        mean(x)  ->  sum(x / n)
        For a sum of any scale but one. No partial sum is larger than the largest element.
        """,
        source="definition of a mean",
        example=_mean_example,
        kind="semantic",
        domain="real",
    ),
)
