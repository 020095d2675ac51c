"""Offloading: late readers of a value have it from the memory of the host, where it waits for them."""

from __future__ import annotations

from collections.abc import Sequence

from tapestry.rewrites.cell_form import INPUT
from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.offloading import is_offload
from tapestry.rewrites.regions import Offload
from tapestry.rewrites.repeating import after_readers, readers_of
from tapestry.rewrites.repetition.recomputation import MOST_READERS
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, op, rest
from tapestry.teg.graph import Graph

OFFLOAD = "offload"


def _divisions(m: Match) -> Sequence[str]:
    """List the usual choices: so many readers are early, at least one of them, and at least one is late."""
    count = len(readers_of(m.edited, m.roots[0]))
    return [after_readers(k) for k in range(1, count)] if count <= MOST_READERS else []


def _is_stored(m: Match) -> bool:
    """Return whether the block makes one tensor in the memory of the device."""
    (block,) = m.roots
    return len(block.outputs) == 1 and not block.is_view and block.operator not in ("source", "waypoint")


def _example(size: ExampleSizes) -> Graph:
    """Build a graph in which a cell's result is read twice: for sums of its rows, and to be scaled by these."""
    b = ExampleBuilder("offload")
    rows, columns = size(4), size(3)
    x, v = b.tensor("x", rows, columns), b.tensor("v", columns)
    hidden = b.cell(("tanh", INPUT), {x: "rc"}, site="hidden")
    total = b.contract("rc,c->r", hidden, v, site="total")
    return b.result(b.cell(("mul", ("input", 0), ("input", 1)), {hidden: "rc", total: "r"}, site="scaled"))


OFFLOADING: tuple[Rule, ...] = (
    Rule(
        name=OFFLOAD,
        left=op(None, rest("xs")),
        right=Offload(),
        when=_is_stored,
        choices=_divisions,
        further=is_offload,
        doc="""
        Late readers of a value have it from the host, where it is copied before.

        y = f(x); g(y); ...; h(y)  ->  y = f(x); g(y); y' = waypoint(y) on the host; ...; h(y')
        Always: a waypoint changes no value. The choice says how many readers are early, in program order, and before
        which block the copy to the host has ended; that is right after the early readers if it says nothing. From then
        on until it is copied back the value takes no memory of the device.
        """,
        source="Rajbhandari et al., ZeRO-Infinity, 2021; `offload_dst` of `jax.checkpoint_policies`",
        example=_example,
    ),
)
