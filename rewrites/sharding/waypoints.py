"""Waypoints: resharding in two steps, by an intermediate sharding between producer and reader.

A waypoint computes nothing, but has a strategy of its own. Partial sums that stop at a split waypoint are
reduce-scattered there and gathered by the next reader: an all-reduce in its two halves, with a part of the
tensor in memory between them instead of all of it, and other blocks in between. A tensor that is split over two
axes is gathered over one at a waypoint and over the other at its reader.
"""

from __future__ import annotations

from tapestry.rewrites.example_builder import ExampleBuilder
from tapestry.rewrites.regions import PutWaypoint
from tapestry.rewrites.rule import ExampleSizes, Match, Rule, attr, op, rest, tensor
from tapestry.rewrites.waypoints import is_place
from tapestry.teg.graph import Graph
from tapestry.teg.signature import PARALLEL

WAYPOINT = "waypoint"
SOURCE = "Thakur, Rabenseifner and Gropp, Optimization of Collective Communication Operations in MPICH, 2005"


def _makes_partial_sums(m: Match) -> bool:
    """Return whether the block combines along some dimension, which may be split, and no waypoint follows."""
    definition, root = m["d"], m.roots[0]
    if definition.signature is None or len(root.outputs) != 1:
        return False
    combines = any(d.kind != PARALLEL for d in definition.signature.dims)
    return combines and not any(reader.operator == "waypoint" for reader, _ in m.edited.readers[m["y"]])


def _made_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("waypoint")
    y = b.contract("mk,kn->mn", b.tensor("x", size(4), 6), b.tensor("w", 6, size(5), role="parameter"))
    return b.result(b.cell(("tanh", ("input", 0)), {y: "mn"}))


def _removed_example(size: ExampleSizes) -> Graph:
    b = ExampleBuilder("remove_waypoint")
    stop = b.op("waypoint", b.tensor("x", size(4), size(3)))
    return b.result(b.cell(("tanh", ("input", 0)), {stop: "mn"}))


WAYPOINTS: tuple[Rule, ...] = (
    Rule(
        name=WAYPOINT,
        left=op(None, rest("xs"), definition=attr("d")).named("y"),
        right=PutWaypoint(),
        when=_makes_partial_sums,
        further=is_place,
        doc="""
        A result that may be made as partial sums gets a station on its way.

        f(x)  ->  waypoint(f(x))
        Where the block combines along some dimension. Values stay; the plan chooses where the station is: split, an
        all-reduce becomes a reduce-scatter and a later all-gather. In rounds, terms are added there, so that gradients
        are reduced in each of them. A choice may name the block before which the station is; else it follows at once.
        Not for saturation: more blocks.
        """,
        source=SOURCE,
        example=_made_example,
    ),
    Rule(
        name="remove_waypoint",
        left=op("waypoint", tensor("x")),
        right=tensor("x"),
        doc="""
        A station is given up.

        waypoint(x)  ->  x
        Always. Not for saturation, which would undo every `waypoint`.
        """,
        source=SOURCE,
        example=_removed_example,
    ),
)
