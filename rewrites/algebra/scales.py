"""Moving of scales through contractions, to whichever side is smaller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapestry.rewrites.algebra.contraction_terms import EINSUM, X
from tapestry.rewrites.cell_form import INPUT, any_cell, dim_labels, pointwise
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.laws import Whole
from tapestry.rewrites.patterns import K
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, pick, rest
from tapestry.teg.dtypes import is_float
from tapestry.teg.graph import Graph

SCALE = ("mul", INPUT, ("const", K))


def _keeps_order(m: Match, labels: str = "cell_labels", dims: str = "cell_dims") -> bool:
    """Return whether the cell reads its only operand element by element."""
    return bool(m[labels] == (tuple(name for name, _ in m[dims]),))


def _scaled(m: Match, name: str) -> Mapping[str, Any]:
    """Build the attributes of the cell that scales a tensor by k."""
    kind = m.edited.tensors[name].type
    expr = ("mul", INPUT, ("const", m["k"]))
    return pointwise(expr, (dim_labels(len(kind.shape)),), kind.shape, kind.dtype)


def _scale_out_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("scale_out_of_contract")
    x = b.tensor("x", size(3), size(4))
    half = b.cell(("mul", INPUT, ("const", 0.5)), {x: "mk"})
    return b.result(b.contract("mk,nk->mn", half, b.tensor("w", size(5), b.shape(x)[1])))


def _scale_into_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("scale_into_contract")
    x = b.tensor("x", size(3), size(4))
    y = b.contract("mk,nk->mn", x, b.tensor("w", size(5), b.shape(x)[1]))
    return b.result(b.cell(("mul", INPUT, ("const", 0.125)), {y: "mn"}))


SCALES: tuple[Rule, ...] = (
    Rule(
        name="scale_out_of_contract",
        left=op(
            "contract",
            rest("before"),
            any_cell(X, prefix="cell_", inside=Whole(SCALE)).only_here().named("scaled"),
            rest("after"),
            labels=attr("labels"),
            output=attr("output"),
        ),
        right=op(
            "cell",
            op("contract", rest("before"), X, rest("after"), labels=attr("labels"), output=attr("output")),
            given=lambda m: _scaled(m, m.roots[0].outputs[0]),
        ),
        when=lambda m: _keeps_order(m) and m.dtype("x") == m["cell_dtype"] and is_float(m["cell_dtype"]),
        doc="""
        A scale of an operand becomes a scale of the result.

        (k x) w  ->  k (x w)
        Where nobody else reads the scaled operand. Not for saturation: which side is smaller depends.
        """,
        source=EINSUM,
        example=_scale_out_example,
        domain="real",
    ),
    Rule(
        name="scale_into_contract",
        left=any_cell(
            op("contract", rest("xs"), labels=attr("labels"), output=attr("output")).only_here().named("y"),
            prefix="cell_",
            inside=Whole(SCALE),
        ),
        right=op(
            "contract",
            pick(lambda m: m["xs"][: int(m.choice)]),
            op(
                "cell",
                pick(lambda m: [m["xs"][int(m.choice)]]),
                given=lambda m: _scaled(m, m["xs"][int(m.choice)]),
            ).named("scaled"),
            pick(lambda m: m["xs"][int(m.choice) + 1 :]),
            labels=attr("labels"),
            output=attr("output"),
        ),
        when=lambda m: (
            _keeps_order(m)
            and is_float(m["cell_dtype"])
            and {t.dtype for t in m.types("xs")} == {m["cell_dtype"]}
        ),
        choices=lambda m: [str(k) for k in range(len(m["xs"]))],
        doc="""
        A scale of a contraction becomes a scale of one of its operands; which one is the choice.

        k (x w)  ->  (k x) w  or  x (k w)
        Where nobody else reads the unscaled result. Not for saturation: which side is smaller depends.
        """,
        source=EINSUM,
        example=_scale_into_example,
        domain="real",
    ),
)
