"""Normalizations of rows in terms of means and cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.cell_form import INPUT, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.expansions.rows import (
    DIFFERENCE,
    WIDE_X,
    X,
    kept_names,
    mean_scale,
    names_of,
    reduce_rows,
    row_cell,
    wide,
)
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, rest
from tapestry.teg.graph import Graph
from tapestry.teg.operators.expressions import Expression

MEAN = reduce_rows(WIDE_X, "sum", "mean", mean_scale)
CENTERED = op("cell", WIDE_X, MEAN, given=lambda m: row_cell(m, DIFFERENCE, wide(m))).named("centered")
SQUARE = op("cell", CENTERED, given=lambda m: row_cell(m, ("square", INPUT), wide(m), 0)).named("square")
VARIANCE = reduce_rows(SQUARE, "sum", "variance", mean_scale)


def _normalized(m: Match) -> Mapping[str, Any]:
    """Build (first operand) rsqrt(second + eps), times scale, plus bias, as far as these are present."""
    expr: Expression = ("mul", INPUT, ("rsqrt", ("add", ("input", 1), ("const", m["eps"]))))
    for k, name in enumerate(("mul", "add")[: len(m["affine"])]):
        expr = (name, expr, ("cast", wide(m), ("input", 2 + k)))
    names, kept = names_of(m), kept_names(m)
    vector = tuple(n for n in names if n not in kept)
    return pointwise(expr, (names, kept, *(vector,) * len(m["affine"])), m.shape("x"), m.dtype("x"))


def _layer_norm_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("expand_layer_norm")
    x = b.tensor("x", size(3), size(2), size(4))
    affine = [b.tensor(n, b.shape(x)[2], role="parameter") for n in ("scale", "bias")]
    results = [b.op("layer_norm", x, *affine[:k], axes=(2,), eps=1e-5) for k in range(3)]
    return b.result(*results)


NORMALIZATIONS: tuple[Rule, ...] = (
    Rule(
        name="expand_layer_norm",
        left=op("layer_norm", X, rest("affine"), axes=attr("axes"), eps=attr("eps")),
        right=op("cell", CENTERED, VARIANCE, rest("affine"), given=_normalized).named("normalized"),
        when=lambda m: len(m["affine"]) <= 2,
        doc="""
        A layer normalization becomes mean, variance and cells, so that its rows can be split.

        layer_norm(x, scale?, bias?)  ->  c rsqrt(mean(c^2) + eps) scale + bias with c = x - mean(x)
        With or without scale and bias; halves are computed in float32, as by the operator.
        """,
        source="Ba, Kiros and Hinton, Layer Normalization, 2016, equation 3",
        example=_layer_norm_example,
        kind="semantic",
        domain="real",
    ),
)
