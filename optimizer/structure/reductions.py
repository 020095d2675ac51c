"""Sums over rounds, such as gradients, that are added at waypoints: each round brings its term there in parts.

Without one every round adds the whole sum of its own slice to what each device holds; with one a device may hold but
its part, to which every round reduces (gradients sharded as in ZeRO's second stage).
"""

from __future__ import annotations

from itertools import accumulate

from tapestry.rewrites import Move
from tapestry.rewrites.sharding.waypoints import WAYPOINT
from tapestry.rewrites.waypoints import waypoint_before
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.rounds import Rounds, time_axis

SHARE = 0.99  # of the bytes of all sums, the largest first
UNDERWAY = 2  # so many later sums are made while the term of one is on its way


def reductions(graph: Graph, rounds: Rounds) -> tuple[Move, ...]:
    """Return the moves that put waypoints behind the large sums that rounds of a program accumulate.

    The waypoint of one stands before the block that makes the second one after it, so that blocks between hide the way.

    Raises:
        RoundsError: the program cannot run in the rounds.
    """
    time = time_axis(graph, rounds)
    sums = [b for b in graph.blocks if any(t in time.accumulated for t in b.outputs)]
    makers = [block for block in _large(graph, sums) if _may_wait(graph, block)]
    place = {block.site: k for k, block in enumerate(graph.blocks)}
    found = []
    for k, block in enumerate(makers):
        before = ""
        if k + 1 + UNDERWAY < len(makers):
            later = makers[k + 1 + UNDERWAY].site
            readers = (place[reader.site] for reader, _ in graph.readers[block.outputs[0]])
            before = waypoint_before(later) if place[later] <= min(readers, default=-1) else ""
        found.append(Move(WAYPOINT, block.site, before))
    return tuple(found)


def _may_wait(graph: Graph, block: Block) -> bool:
    """Return whether a block makes one tensor, for which there is no waypoint yet."""
    if block.operator == "waypoint" or len(block.outputs) != 1:
        return False
    return all(reader.operator != "waypoint" for reader, _ in graph.readers[block.outputs[0]])


def _large(graph: Graph, sums: list[Block]) -> list[Block]:
    """Select the fewest blocks, in program order, that make most bytes of all."""
    sizes = {
        block.site: sum(graph.tensors[tensor].type.size_bytes for tensor in block.outputs) for block in sums
    }
    ordered = sorted(sizes, key=lambda site: -sizes[site])
    before = [0, *accumulate(sizes[site] for site in ordered)]
    enough = {site for site, size in zip(ordered, before, strict=False) if size < SHARE * before[-1]}
    return [block for block in sums if block.site in enough]
