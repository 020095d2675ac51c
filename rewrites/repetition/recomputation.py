"""Recomputation: late readers of a value read a repetition of its block, so that it need not be stored until then."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import Repeat
from tapestry.rewrites.repeating import after_readers, readers_of
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, rest, tensor
from tapestry.rewrites.tracked_graph import TrackedGraph
from tapestry.teg.graph import Block, Graph

SOURCE = (
    "Griewank and Walther, Algorithm 799: revolve, 2000; "
    "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016"
)

# A value with more readers is not computed again: each division of its readers into early and late is a choice.
MOST_READERS = 64

# Blocks in a row that read nothing else, such as views, through which a value is followed.
MOST_STEPS = 8


def _divisions(m: Match) -> Sequence[str]:
    """List the choices: so many readers are early, at least one is late; none is early where all wait for others."""
    block, readers = m.roots[0], readers_of(m.edited, m.roots[0])
    if not 0 < len(readers) <= MOST_READERS:
        return []
    least = 0 if all(_waits(m.edited, r, block, MOST_STEPS) for r in readers) else 1
    return [after_readers(k) for k in range(least, len(readers))]


def _waits(graph: TrackedGraph, reader: Block, block: Block, steps: int) -> bool:
    """Return whether a reader, or each of those that need it alone, reads something that is made after a block."""
    start = graph.position(block.site)
    others = [graph.producers[t] for t in reader.inputs if t not in block.outputs]
    if any(graph.position(other.site) > start for other in others):
        return True
    further = [] if others or steps == 0 else readers_of(graph, reader)
    return bool(further) and all(_waits(graph, each, reader, steps - 1) for each in further)


def _is_repeated(m: Match) -> bool:
    """Return whether the second block is a repetition of the first."""
    first, second = m.roots
    return first.repetition < second.repetition


def _example(size: ExampleSizes, name: str, is_repeated: bool) -> Graph:
    """Build a graph in which a cell's result is read twice: for sums of its rows, and to be scaled by these."""
    b = ExampleBuilder(name)
    rows, columns = size(4), size(3)
    x, v = b.tensor("x", rows, columns), b.tensor("v", columns)
    hidden = b.cell(("tanh", INPUT), {x: "rc"}, site="hidden")
    total = b.contract("rc,c->r", hidden, v, site="total")
    late = b.repeated(hidden, "hidden~again") if is_repeated else hidden
    return b.result(b.cell(("mul", ("input", 0), ("input", 1)), {late: "rc", total: "r"}, site="scaled"))


RECOMPUTATION: tuple[Rule, ...] = (
    Rule(
        name="recompute",
        left=op(None, rest("xs")),
        right=Repeat(),
        choices=_divisions,
        doc="""
        Late readers of a value have it computed again, right before the first of them.

        y = f(x); g(y); ...; h(y)  ->  y = f(x); g(y); ...; y' = f(x); h(y')
        Always: a block is a function of its inputs. The choice says how many readers are early, in program order.
        Until the late ones the value need not be stored, if its inputs are there anyway. Where no reader is early, as
        all need what is made after the block, the block itself runs right before the first.
        """,
        source=SOURCE,
        example=lambda size: _example(size, "recompute", is_repeated=False),
    ),
    Rule(
        name="store_repeated",
        left=(
            op(None, rest("xs"), definition=attr("d")).named("y"),
            op(None, rest("xs"), definition=attr("d")).named("again"),
        ),
        right=(tensor("y"), tensor("y")),
        when=_is_repeated,
        doc="""
        A value that is computed again is stored instead.

        y = f(x); g(y); ...; y' = f(x); h(y')  ->  y = f(x); g(y); ...; h(y)
        Where the second block is a repetition of the first. Not for saturation, which would undo every `recompute`.
        """,
        source=SOURCE,
        example=lambda size: _example(size, "store_repeated", is_repeated=True),
    ),
)
