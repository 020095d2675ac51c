"""Expansion of a fused block into its steps, as blocks of their own."""

from __future__ import annotations

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import ExpandFused
from tapestry.rewrites.rule import ExampleSizes, Rule, op, rest
from tapestry.teg.graph import Graph
from tapestry.teg.operators.fused_body import FUSED


def _example(size: ExampleSizes) -> Graph:
    """Build an example: a parameter and its momentum from the gradient: two outputs, one also read inside."""
    b = ExampleBuilder("expand_fused")
    shape = (size(4), size(3))
    p, g, v = b.tensor("p", *shape), b.tensor("g", *shape), b.tensor("v", *shape)
    names, dims = ("r", "c"), (("r", shape[0]), ("c", shape[1]))
    both = (names, names)
    faster = ("add", ("mul", ("const", 0.9), ("input", 0)), ("input", 1))
    further = ("sub", ("input", 0), ("mul", ("const", 0.1), ("input", 1)))
    cells = [
        (("dims", dims), ("dtype", "float32"), ("expr", expr), ("labels", both)) for expr in (faster, further)
    ]
    body = (("cell", cells[0], (2, 1)), ("cell", cells[1], (0, 3)))
    types = ((shape, "float32"),) * 3
    return b.result(*b.apply(FUSED, (p, g, v), site="update", body=body, types=types, results=(4, 3)))


BODIES: tuple[Rule, ...] = (
    Rule(
        name="expand_fused",
        left=op(FUSED, rest("xs")),
        right=ExpandFused(),
        doc="""
        A fused block is spelled out as the blocks it does the work of.

        fused(x; f, g)  ->  g(f(x))
        Always: that is what it means. Outputs keep their tensors; what passed between steps goes through memory.
        """,
        source="definition of the fused block",
        example=_example,
        kind="semantic",
    ),
)
