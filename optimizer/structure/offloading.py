"""Offloading of what a program stores across its peak of memory: what fits beside its blocks on the link to the host.

A value is carried to the host as soon as it is there, and must have arrived before the peak; it comes back just in time
for its first late reader, and must not before the peak. Both ways are queues: a value takes its time on the link after
those before it. Values made first are read last where a program runs back through its layers; so they are taken in the
order in which they are made (ZeRO-Infinity, Rajbhandari et al., 2021, offloads all; vDNN, Rhu et al., 2016, as much as
is hidden). How much slower than the program the link may be, as if blocks took so many times as long, is a choice.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

from tapestry.costmodel.unsharded import UnshardedCosts, buffers_of, lasting_buffers
from tapestry.hardware.device import Device
from tapestry.hardware.timing import host_ticks
from tapestry.optimizer.structure.recomputation import StorageProblem
from tapestry.rewrites import Move
from tapestry.rewrites.mutable_graph import program_order_of
from tapestry.rewrites.repetition.offloading import OFFLOAD
from tapestry.rewrites.repetition.recomputation import MOST_READERS
from tapestry.rewrites.waypoints import waypoint_before
from tapestry.teg.graph import Block, Graph

# The most blocks between the begin and the end of a copy: plans say no more.
FARTHEST = 120

# Values smaller than this share of the largest one that may wait on the host stay.
LEAST_SHARE = 0.01


class Peak(NamedTuple):
    """The block of a program at whose end most is stored, and the moves by which late readers have views of their own.

    A view that stays before the peak would keep there what it shows.
    """

    site: str
    moves: tuple[Move, ...]


def peak_of(graph: Graph, costs: UnshardedCosts) -> Peak | None:
    """Find the peak of a program's memory on one device; None for a program without blocks."""
    problem = StorageProblem(graph, costs)
    if problem.peak < 0:
        return None
    return Peak(graph.blocks[problem.peak].site, problem.moves(_late_views(problem)))


def offloads(
    graph: Graph, costs: UnshardedCosts, device: Device, slowness: float, peak: str
) -> tuple[Move, ...]:
    """Return the moves by which values wait on the host, as if blocks took `slowness` times as long.

    `graph` is the program after the moves of its `peak`.
    """
    return _Link(graph, costs, device, slowness, peak).moves() if peak in graph.by_site else ()


def _late_views(problem: StorageProblem) -> set[str]:
    """Return the sites of views before the peak that a block after it reads, or another such view."""
    found: set[str] = set()
    held = program_order_of(problem.graph).held
    for site in reversed(problem.nodes):
        readers = problem.readers[site]
        may_move = problem.nodes[site].block.is_view and site not in held
        if may_move and any(r not in problem.readers or r in found for r in readers):
            found.add(site)
    return found


class _Link:
    """The link to the host beside the blocks of a program on one device, and what it has time to carry."""

    def __init__(
        self, graph: Graph, costs: UnshardedCosts, device: Device, slowness: float, peak: str
    ) -> None:
        self.graph, self.device = graph, device
        self.place = {block.site: k for k, block in enumerate(graph.blocks)}
        ticks = costs.by_site(graph)
        times = (slowness * (ticks[b.site].time_ticks if b.site in ticks else 0) for b in graph.blocks)
        self.begins = [0.0, *accumulate(times)]  # when each block begins; the last is when all have ended
        self.peak = self.place[peak]
        sizes, roots = buffers_of(graph)
        self.sizes, self.lasting = sizes, lasting_buffers(graph, roots)
        self.held = program_order_of(graph).held

    def moves(self) -> tuple[Move, ...]:
        """Return the moves by which values wait on the host."""
        waiting = [block for block in self.graph.blocks[: self.peak] if self._may_wait(block)]
        least = LEAST_SHARE * max((self.sizes[b.outputs[0]] for b in waiting), default=0)
        found: list[Move] = []
        sent, fetched = 0.0, self.begins[-1]
        for block in waiting:
            (made,) = block.outputs
            if self.sizes[made] < least:
                continue
            early, late = self._readers(block)
            took = float(host_ticks(self.device, self.sizes[made]))
            arrives = max(sent, self.begins[self.place[block.site] + 1]) + took
            comes = min(fetched, self.begins[self.place[late[0].site]]) - took
            before = bisect_left(self.begins, arrives)
            before = max(before, self.place[(early[-1] if early else block).site] + 1)
            issued = bisect_left(self.begins, comes)
            far = max(before - self.place[block.site], self.place[late[0].site] - issued)
            if before > self.peak or comes < self.begins[self.peak] or far > FARTHEST:
                continue
            sent, fetched = arrives, comes
            place = self.graph.blocks[before].site
            found.append(Move(OFFLOAD, block.site, waypoint_before(place, len(early))))
        return tuple(found)

    def _readers(self, block: Block) -> tuple[list[Block], list[Block]]:
        """Return the readers up to the peak, and those after it, in program order."""
        readers = {reader.site: reader for reader, _ in self.graph.readers[block.outputs[0]]}
        ordered = sorted(readers.values(), key=lambda reader: self.place[reader.site])
        early = [reader for reader in ordered if self.place[reader.site] <= self.peak]
        return early, ordered[len(early) :]

    def _may_wait(self, block: Block) -> bool:
        """Return whether a block makes one tensor that is stored, no result, and read after the peak."""
        if block.is_view or block.operator in ("source", "waypoint") or len(block.outputs) != 1:
            return False
        if block.outputs[0] in self.lasting or block.site in self.held:
            return False
        early, late = self._readers(block)
        return (
            bool(late)
            and 1 < len(early) + len(late) <= MOST_READERS
            and not any(reader.is_view for reader in early if self._is_read_late(reader))
        )

    def _is_read_late(self, view: Block) -> bool:
        """Return whether what a view shows is read after the peak."""
        readers = [reader for t in view.outputs for reader, _ in self.graph.readers[t]]
        return any(self.place[r.site] > self.peak or (r.is_view and self._is_read_late(r)) for r in readers)
