"""Cleanup rules: merge equal blocks and equal constants, remove values that nothing reads."""

from __future__ import annotations

import numpy as np

from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.rule import NOTHING, ExampleSizes, Match, Rule, attr, op, rest, tensor
from tapestry.teg.graph import Graph


def _same_values(m: Match) -> bool:
    """Return whether two sources have the same values, bit by bit."""
    a, b = m.value("a"), m.value("b")
    if a is None or b is None:
        return False
    return a is b or a.tobytes() == b.tobytes()


def _is_computed_once(m: Match) -> bool:
    """Return whether neither block is a repetition of the other, which is there for the sake of memory."""
    first, second = m.roots
    return first.repetition == second.repetition


def _equal_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("equal_blocks")
    x = b.tensor("x", size(3), size(4))
    one, two = (b.cell(("exp", INPUT), {x: "rc"}) for _ in range(2))
    return b.result(b.cell(("sub", ("input", 0), ("input", 1)), {one: "rc", two: "rc"}), two)


def _constants_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("equal_constants")
    shape = (size(3), size(4))
    values = np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape)
    one, two = (b.source(f"c{k}", shape, "float32", "constant", values.copy()) for k in range(2))
    return b.result(b.cell(("sub", ("input", 0), ("input", 1)), {one: "rc", two: "rc"}), two)


def _dead_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("dead_value")
    x = b.tensor("x", size(3), size(4))
    b.cell(("exp", INPUT), {x: "rc"}, site="unseen")
    return b.result(b.cell(("neg", INPUT), {x: "rc"}))


def _dead_constant_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("dead_constant")
    values = np.ones(size(3), np.float32)
    seen, _ = (b.source(n, values.shape, "float32", "constant", values) for n in ("seen", "unseen"))
    return b.result(b.cell(("neg", INPUT), {seen: "r"}))


CLEANUP: tuple[Rule, ...] = (
    Rule(
        name="equal_blocks",
        left=(
            op(None, rest("xs"), definition=attr("d")).named("a"),
            op(None, rest("xs"), definition=attr("d")).named("b"),
        ),
        right=(tensor("a"), tensor("a")),
        when=_is_computed_once,
        doc="""
        What is computed twice from the same inputs is computed once.

        a = f(x), b = f(x)  ->  a = f(x), b is a
        Where operator, attributes and inputs are the same: a block is a function of its inputs. Not
        where one is a repetition of the other, which keeps memory free in between.
        """,
        source="common subexpression elimination (Cocke, Global Common Subexpression Elimination, 1970)",
        example=_equal_example,
        saturating=True,
    ),
    Rule(
        name="equal_constants",
        left=(
            op("source", definition=attr("d"), role="constant").named("a"),
            op("source", definition=attr("d"), role="constant").named("b"),
        ),
        right=(tensor("a"), tensor("a")),
        when=_same_values,
        doc="""
        Two constants of equal data are one.

        a = data, b = data  ->  a = data, b is a
        Where the program brings both along with the same bits. Only constants: parameters may change.
        """,
        source="common subexpression elimination",
        example=_constants_example,
        saturating=True,
    ),
    Rule(
        name="dead_value",
        left=op(None, rest("xs")),
        right=NOTHING,
        when=lambda m: m.is_unread(),
        doc="""
        A value that nobody reads is not computed.

        y = f(x), unread  ->  nothing
        Where no block reads any result; sinks have none and are never taken away.
        """,
        source="dead code elimination",
        example=_dead_example,
        saturating=True,
    ),
    Rule(
        name="dead_constant",
        left=op("source", role="constant"),
        right=NOTHING,
        when=lambda m: m.is_unread(),
        doc="""
        A constant that nobody reads is dropped.

        constant, unread  ->  nothing
        Only constants: inputs and parameters are part of how the program is called.
        """,
        source="dead code elimination",
        example=_dead_constant_example,
        saturating=True,
    ),
)
