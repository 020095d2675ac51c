"""Constant folding: compute results of data supplied with the program once and for all."""

from __future__ import annotations

import math

import numpy as np

from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import ExampleSizes, Match, Op, Rule, attr, op, rest
from tapestry.teg.evaluate import run_block
from tapestry.teg.graph import Graph
from tapestry.teg.operators import operator_named

# A folded constant is stored with the program: small ones only, and none that take long to compute.
MOST_ELEMENTS = 1 << 14
MOST_POINTS = 1 << 22

ANY = op(None, rest("xs"), definition=attr("definition"))


def _points(m: Match) -> int:
    """Count the index points of the block; for one without an index range, the elements that it reads."""
    signature = m["definition"].signature
    if signature is not None:
        return math.prod(signature.index_range.shape)
    return sum(math.prod(t.shape) for t in m.types("xs"))


def _is_known(m: Match) -> bool:
    """Return whether the block has one result, which is small, and data for all its inputs."""
    data = m.edited.data
    return bool(
        m["xs"]
        and all(t in data and m.edited.producers[t].definition.get("role") == "constant" for t in m["xs"])
        and len(m.roots[0].outputs) == 1
        and math.prod(m.result().shape) <= MOST_ELEMENTS
        and _points(m) <= MOST_POINTS
        and not operator_named(m["definition"].operator).meaningless
    )


def _computed(m: Match) -> np.ndarray:
    with np.errstate(all="ignore"):
        (value,) = run_block(m["definition"], None, [m.edited.data[t] for t in m["xs"]], [m.result()])
    return np.asarray(value)


def _constant() -> Op:
    source = op("source", shape=lambda m: m.result().shape, dtype=lambda m: m.result().dtype, role="constant")
    return source.holding(_computed).named("constant")


def _example(size: ExampleSizes) -> Graph:
    """Build an example: a table times exponentials of another one, and a sum that reads an unknown value."""
    b = ExampleBuilder("fold_constants")
    rows, columns = size(3), size(4)
    values = np.linspace(-1, 1, rows * columns, dtype=np.float32).reshape(rows, columns)
    table = b.source("table", (rows, columns), "float32", "constant", values)
    weights = b.source("weights", (columns,), "float32", "constant", np.ones(columns, np.float32))
    product = b.contract("rc,c->r", table, b.cell(("exp", INPUT), {weights: "c"}))
    x = b.tensor("x", rows)
    return b.result(b.cell(("add", ("input", 0), ("input", 1)), {x: "r", product: "r"}))


CONSTANTS: tuple[Rule, ...] = (
    Rule(
        name="fold_constants",
        left=ANY,
        right=_constant(),
        when=_is_known,
        context_depth=1,
        doc="""
        What is computed from constants is a constant.

        f(data)  ->  data'
        Where all operands are constants whose data the program brings along, and the result is small. Parameters
        are no constants: their data may be exchanged, and mostly is not there.
        """,
        source="constant folding (Kildall, A Unified Approach to Global Program Optimization, 1973)",
        example=_example,
        saturating=True,
    ),
)
