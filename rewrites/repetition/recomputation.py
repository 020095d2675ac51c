"""Recomputation: late readers of a value read a repetition of its block, so that it need not be stored until then."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import Repeat
from tapestry.rewrites.repeating import after_readers, readers_of
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, rest, tensor
from tapestry.teg.graph import Graph

SOURCE = (
    "Griewank and Walther, Algorithm 799: revolve, 2000; "
    "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016"
)

RECOMPUTE, POSTPONE = "recompute", "postpone"

# A value with more readers is not computed again: each division of its readers into early and late is a choice.
MOST_READERS = 64


def divisions(m: Match) -> Sequence[str]:
    """List the choices: so many readers are early, at least one of them, and at least one is late."""
    count = len(readers_of(m.edited, m.roots[0]))
    return [after_readers(k) for k in range(1, count)] if count <= MOST_READERS else []


def _is_repeated(m: Match) -> bool:
    """Return whether the second block is a repetition of the first."""
    first, second = m.roots
    return first.repetition < second.repetition


def read_twice(size: ExampleSizes, name: str, is_repeated: bool) -> Graph:
    """Build a graph in which a cell's result is read twice: for sums of its rows, and to be scaled by these."""
    b = ExampleBuilder(name)
    rows, columns = size(4), size(3)
    x, v = b.tensor("x", rows, columns), b.tensor("v", columns)
    hidden = b.cell(("tanh", INPUT), {x: "rc"}, site="hidden")
    total = b.contract("rc,c->r", hidden, v, site="total")
    late = b.repeated(hidden, "hidden~again") if is_repeated else hidden
    return b.result(b.cell(("mul", ("input", 0), ("input", 1)), {late: "rc", total: "r"}, site="scaled"))


def _postponed_example(size: ExampleSizes) -> Graph:
    """Build a graph that compares something early and uses that late."""
    b = ExampleBuilder("postpone")
    x = b.tensor("x", size(4), size(3))
    hidden = b.cell(("tanh", INPUT), {x: "rc"}, site="hidden")
    other = b.cell(("exp", INPUT), {x: "rc"}, site="other")
    return b.result(b.cell(("mul", ("input", 0), ("input", 1)), {hidden: "rc", other: "rc"}, site="scaled"))


RECOMPUTATION: tuple[Rule, ...] = (
    Rule(
        name=RECOMPUTE,
        left=op(None, rest("xs")),
        right=Repeat(),
        choices=divisions,
        doc="""
        Late readers of a value have it computed again, right before the first of them.

        y = f(x); g(y); ...; h(y)  ->  y = f(x); g(y); ...; y' = f(x); h(y')
        Always: a block is a function of its inputs. The choice says how many readers are early, in program order.
        Until the late ones the value need not be stored, if its inputs are there anyway.
        """,
        source=SOURCE,
        example=lambda size: read_twice(size, "recompute", is_repeated=False),
    ),
    Rule(
        name=POSTPONE,
        left=op(None, rest("xs")),
        right=Repeat(),
        when=lambda m: not m.is_unread(),
        doc="""
        A block runs right before the first of its readers.

        y = f(x); ...; g(y)  ->  ...; y = f(x); g(y)
        Always: only the program order changes. Until then its inputs live instead of the value.
        """,
        source=SOURCE,
        example=_postponed_example,
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
        example=lambda size: read_twice(size, "store_repeated", is_repeated=True),
    ),
)
