"""Softmax and sums in the logarithmic domain: the safe form, the form of one pass, and their parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tapestry.rewrites.cell_form import INPUT, Labels, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.rows import DIFFERENCE, WIDE_X, X, reduce_rows, row_cell, wide
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression

SOFTMAX = "Milakov and Gimelshein, Online normalizer calculation for softmax, 2018"

PEAK = reduce_rows(WIDE_X, "max", "max")
EXPONENTIAL = op("cell", WIDE_X, PEAK, given=lambda m: row_cell(m, ("exp", DIFFERENCE), wide(m))).named("exp")
LOG_SUM = reduce_rows(WIDE_X, "logsumexp", "logsumexp")


def _log_sum(m: Match) -> Mapping[str, Any]:
    shape = m.result().shape
    inserted = m["keep"] or ()
    labels = tuple(name for k, name in enumerate(dim_labels(len(shape))) if k not in inserted)
    return pointwise(("add", ("log", INPUT), _finite(1)), (labels, labels), shape, m.dtype("x"))


def _finite(k: int) -> Expression:
    """Build input k if it is finite, else 0: a row of infinities has no maximum to subtract."""
    return ("where", ("is_inf", ("input", k)), ("const", 0.0), ("input", k))


def _shifted(m: Match) -> Mapping[str, Any]:
    dims = tuple(zip(m["labels"], m.shape("x"), strict=True))
    expr = ("exp", ("sub", INPUT, _finite(1)))
    return {"expr": expr, "labels": (m["labels"], m["output"]), "dims": dims, "dtype": wide(m)}


ROW_PEAK = op("reduce", WIDE_X, monoid="max", labels=attr("labels"), output=attr("output")).named("max")
ROW_SUM = op(
    "reduce",
    op("cell", WIDE_X, ROW_PEAK, given=_shifted).named("exp"),
    monoid="sum",
    labels=attr("labels"),
    output=attr("output"),
).named("sum")


def _example(name: str, operator: str) -> Callable[[ExampleSizes], Graph]:
    def example(size: ExampleSizes) -> Graph:
        b = ExampleBuilder(name)
        x = b.tensor("x", size(2), size(3), size(4))
        return b.result(b.op(operator, x, axes=(1, 2)))

    return example


def _log_sum_exp_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("expand_logsumexp")
    x = b.tensor("x", size(3), size(4))
    labels: Labels = ("a", "b")
    return b.result(
        b.op("reduce", x, monoid="logsumexp", labels=labels, output=("a",), keep=(1,)),
        b.op("reduce", x, monoid="logsumexp", labels=labels, output=("b",)),
    )


SOFTMAXES: tuple[Rule, ...] = (
    Rule(
        name="expand_softmax",
        left=op("softmax", X, axes=attr("axes")),
        right=op(
            "cell",
            EXPONENTIAL,
            reduce_rows(EXPONENTIAL, "sum", "sum"),
            given=lambda m: row_cell(m, ("div", ("input", 0), ("input", 1)), m.dtype("x")),
        ).named("quotient"),
        doc="""
        A softmax becomes cells and reductions, so that its rows can be split.

        softmax(x)  ->  e / sum(e) with e = exp(x - max(x))
        Always: it is the safe definition; halves are computed in float32, as by the operator.
        """,
        source=f"{SOFTMAX}, algorithm 2",
        example=_example("expand_softmax", "softmax"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="stream_softmax",
        left=op("softmax", X, axes=attr("axes")),
        right=op(
            "cell",
            WIDE_X,
            LOG_SUM,
            given=lambda m: row_cell(m, ("exp", DIFFERENCE), m.dtype("x")),
        ).named("exp"),
        doc="""
        A softmax becomes one pass over its row for maximum and sum together, and one for the result.

        softmax(x)  ->  exp(x - logsumexp(x))
        Always. The pair of running maximum and running sum is a monoid (here as its logarithm), so parts of a
        row combine, and nothing of the row's size is kept in between.
        """,
        source=f"{SOFTMAX}, algorithm 3",
        example=_example("stream_softmax", "softmax"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_log_softmax",
        left=op("log_softmax", X, axes=attr("axes")),
        right=op(
            "cell",
            WIDE_X,
            LOG_SUM,
            given=lambda m: row_cell(m, DIFFERENCE, m.dtype("x")),
        ).named("difference"),
        doc="""
        A logarithmic softmax becomes a cell and a reduction, so that its rows can be split.

        log_softmax(x)  ->  x - logsumexp(x)
        Always: it is the definition.
        """,
        source=f"{SOFTMAX}, algorithm 3",
        example=_example("expand_log_softmax", "log_softmax"),
        kind="semantic",
        domain="real",
    ),
    Rule(
        name="expand_logsumexp",
        left=op(
            "reduce",
            X,
            monoid="logsumexp",
            labels=attr("labels"),
            output=attr("output"),
            keep=attr("keep"),
        ),
        right=op("cell", ROW_SUM, ROW_PEAK, given=_log_sum).named("log"),
        when=lambda m: len(m["output"]) < len(m["labels"]),
        doc="""
        A sum in the logarithmic domain becomes a maximum and a sum of exponentials.

        logsumexp(x)  ->  log(sum(exp(x - m))) + m with m = max(x)
        Always; where the maximum is infinite nothing is subtracted.
        """,
        source="Blanchard, Higham and Higham, Accurately computing the log-sum-exp, 2021, algorithm 3.1",
        example=_log_sum_exp_example,
        kind="semantic",
        domain="real",
    ),
)
