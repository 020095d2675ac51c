"""Recomputation of what a program stores across its peak of memory: by minimum cuts, at several prices of memory.

What is made before the peak and read after it is either stored or computed again for its late readers, from what is
stored. At a price per byte the cheapest choice is a minimum cut between the sources and the late readers (as in
AOTAutograd's partitioner, PyTorch 2.0, and unlike it with the times of the blocks): storing cuts a value's edge at its
bytes, computing it again cuts the edge of its block at its time. Between the prices lie selective and full
recomputation. A value that is computed again is read soon after: so segments end where few bytes cross the program,
and what crosses there is stored (Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from tapestry.costmodel.unsharded import UnshardedCosts, buffers_of, lasting_buffers, live_bytes
from tapestry.rewrites import Move
from tapestry.rewrites.mutable_graph import program_order_of
from tapestry.rewrites.repeating import after_readers
from tapestry.rewrites.repetition.recomputation import POSTPONE, RECOMPUTE
from tapestry.teg.graph import Block, Graph

# How many of the places where few bytes cross lie between two ends of segments; for a pipeline each is an end, since a
# segment is computed again where it begins, so it is not cut between two stages.
STRIDES = (1, 2, 4, 8)
IN_STAGES = STRIDES[:1]

# Prices of a byte: evenly on a logarithmic scale between the least and the greatest time per byte of what may be
# computed again, and one at which bytes alone count, as a multiple of the greatest.
PRICES, DEAREST = 32, 64.0

# What crosses at the end of a segment, as a multiple of what crosses where it is least in most of the program.
FEW = 1.5

# What is needed so soon after the peak, as a share of all that follows, is needed at the peak.
SOON = 0.05

# The greatest capacity of an edge, in the units of a minimum cut: that of edges which no cut contains.
UNCUT = 1 << 30


class Recomputed(NamedTuple):
    """Blocks that are computed again, the moves by which they are, and estimates of time added and of peak memory."""

    sites: frozenset[str]
    moves: tuple[Move, ...]
    ticks: float
    peak_bytes: int


@dataclass(frozen=True)
class _Node:
    """A block before the peak: the bytes of its results, and its time when it is computed again."""

    block: Block
    size_bytes: int
    ticks: float


def recomputations(graph: Graph, costs: UnshardedCosts, strides: Sequence[int] = STRIDES) -> list[Recomputed]:
    """Return ways to compute values again after a program's peak of memory on one device, the cheapest first.

    None has, by the estimates, another one's time or more and as much memory, or as much as storing everything.
    Segments end at every one of the places where little crosses, or at one in so many as `strides` say.
    """
    problem = StorageProblem(graph, costs)
    cuts = {problem.cheapest(price, stride) for price in problem.prices() for stride in strides}
    estimated = sorted((*problem.estimate(sites), sorted(sites)) for sites in cuts)
    found: list[Recomputed] = []
    _, least = problem.estimate(frozenset())
    for ticks, peak_bytes, sites in estimated:
        if peak_bytes < least:
            least = peak_bytes
            found.append(Recomputed(frozenset(sites), problem.moves(sites), ticks, peak_bytes))
    return found


class StorageProblem:
    """A program divided at its peak: what may be computed again after it, and what must be there then."""

    def __init__(self, graph: Graph, costs: UnshardedCosts) -> None:
        self.graph = graph
        live = live_bytes(graph)[1:]
        working = [b for b in graph.blocks if b.operator != "source" and not b.is_view]
        place = {b.site: k for k, b in enumerate(graph.blocks)}
        self.peak = place[working[int(np.argmax(live))].site] if working else -1
        before = graph.blocks[: self.peak + 1]
        self.readers = {b.site: self._readers(b) for b in before}
        self.waiting = self._waiting(before, place)
        needed = self._needed(before)
        self.ticks = {site: sums.time_ticks for site, sums in costs.by_site(graph).items()}
        sizes, roots = buffers_of(graph)
        lasting = lasting_buffers(graph, roots)
        held = program_order_of(graph).held
        self.nodes: dict[str, _Node] = {}
        for block in before:
            if block.site in needed and block.operator != "source":
                stored = {roots[t] for t in block.outputs if roots[t] == t} - lasting
                again = inf if block.site in held else self._ticks(block)
                self.nodes[block.site] = _Node(block, sum(sizes[t] for t in stored), again)
        self.sizes, self.roots, self.lasting, self.place = sizes, roots, lasting, place
        self.narrow = self._narrow(before)

    def _readers(self, block: Block) -> list[str]:
        return list(dict.fromkeys(r.site for t in block.outputs for r, _ in self.graph.readers[t]))

    def _ticks(self, block: Block) -> float:
        """Return how long it takes to compute a block again; nothing where it runs later instead."""
        return 0 if block.is_view or block.site in self.waiting else self.ticks.get(block.site, 0)

    def _waiting(self, before: Sequence[Block], place: Mapping[str, int]) -> set[str]:
        """Return the sites of blocks before the peak that nothing needs before some time after it."""
        due: dict[str, int] = {}
        for block in reversed(before):
            due[block.site] = min((due.get(r, place[r]) for r in self.readers[block.site]), default=0)
        soon = self.peak + SOON * (len(place) - self.peak)
        return {site for site, k in due.items() if k > soon}

    def _needed(self, before: Sequence[Block]) -> set[str]:
        """Return the sites of blocks before the peak on which something after it depends."""
        found: set[str] = set()
        for block in reversed(before):
            if any(r not in self.readers or r in found for r in self.readers[block.site]):
                found.add(block.site)
        return found

    def _narrow(self, before: Sequence[Block]) -> list[frozenset[str]]:
        """Return what crosses the program before its peak, the sites of blocks, where that is little."""
        sizes, roots, place = self.sizes, self.roots, self.place
        last: dict[str, int] = {}
        for k, block in enumerate(before):
            if block.site not in self.waiting:
                last.update((roots[t], k) for t in block.inputs)
        spans = [(place[self.graph.producers[root].site], end, root) for root, end in last.items()]
        spans = [span for span in spans if before[span[0]].operator != "source"]
        crossing = np.zeros(len(before) + 1, dtype=np.int64)
        for start, end, root in spans:
            crossing[start] += sizes[root]
            crossing[end] -= sizes[root]
        crossing = np.cumsum(crossing)[: len(before)]
        if not crossing.any():
            return []
        few = FEW * np.quantile(crossing[crossing > 0], 0.1)
        ends = []
        for is_few, run in groupby(range(len(before)), lambda k: bool(0 < crossing[k] <= few)):
            if is_few:
                ends.append(min(run, key=lambda k: int(crossing[k])))
        return [frozenset(before[start].site for start, end, _ in spans if start <= k < end) for k in ends]

    def prices(self) -> list[float]:
        """Return prices of a byte in ticks, from one at which little is computed again to one at which all may be."""
        ratios = [n.ticks / n.size_bytes for n in self.nodes.values() if 0 < n.ticks < inf and n.size_bytes]
        if not ratios:
            return []
        return [*np.geomspace(min(ratios), max(ratios), PRICES).tolist(), DEAREST * max(ratios)]

    def cheapest(self, price: float, stride: int) -> frozenset[str]:
        """Return the sites of what is computed again, where a stored byte costs so much and segments are so long."""
        stored = frozenset[str]().union(*self.narrow[stride - 1 :: stride])
        side = _sink_side(self.edges(price, stored), 2 + 2 * len(self.nodes))
        return frozenset(site for k, site in enumerate(self.nodes) if 2 + 2 * k in side)

    def edges(self, price: float, stored: Collection[str]) -> list[tuple[int, int, float]]:
        """Return the network, as tails, heads and capacities, where some blocks cannot be computed again.

        Node 0 is before all, node 1 stands for the late readers; each block has two, one in front of the other.
        """
        number = {site: 2 + 2 * k for k, site in enumerate(self.nodes)}
        edges: list[tuple[int, int, float]] = []
        for site, node in self.nodes.items():
            start, end = number[site], number[site] + 1
            edges.append((0, start, inf if site in stored else node.ticks))
            edges.append((start, end, inf if node.block.is_view else price * node.size_bytes))
            edges.append((end, start, inf))
            producers = {self.graph.producers[t].site for t in node.block.inputs}
            edges += ((number[p] + 1, start, inf) for p in producers if p in number)
            if any(r not in self.readers for r in self.readers[site]):
                edges.append((end, 1, inf))
        return edges

    def moves(self, sites: Collection[str]) -> tuple[Move, ...]:
        """Return the moves by which these blocks are computed again, readers before what they read."""
        level: dict[str, int] = {}
        found: dict[tuple[int, int], list[str]] = {}
        early = self._early(sites)
        for site, count in early.items():
            level[site] = 1 + max((level[r] for r in self.readers[site] if r in level), default=0)
            found.setdefault((level[site], count), []).append(site)
        return tuple(
            Move(RECOMPUTE, tuple(places), after_readers(count)) if count else Move(POSTPONE, tuple(places))
            for (_, count), places in sorted(found.items())
        )

    def _early(self, sites: Collection[str]) -> dict[str, int]:
        """Count the early readers of what is computed again, readers before what they read; none: it runs later."""
        early: dict[str, int] = {}
        for site in reversed([site for site in self.nodes if site in sites]):
            readers = self.readers[site]
            early[site] = sum(r in self.readers and early.get(r, 1) > 0 for r in readers)
        return early

    def estimate(self, sites: Collection[str]) -> tuple[float, int]:
        """Estimate the time that is added, and the peak of memory, if these blocks are computed again."""
        graph, roots, early = self.graph, self.roots, self._early(sites)
        ticks = sum(self.ticks.get(site, 0) for site, count in early.items() if count)
        # The block right before which each runs again, and what runs there, in program order.
        before: dict[str, int] = {}
        for site in early:
            late = (r for r in self.readers[site] if r in early or r not in self.readers)
            before[site] = min(before.get(r, self.place[r]) for r in late)
        repeated: dict[int, list[Block]] = {}
        for site in reversed(early):
            repeated.setdefault(before[site], []).append(self.nodes[site].block)
        made: dict[str, int] = {}
        last: dict[str, int] = {}
        again: dict[str, str] = {}
        size = dict(self.sizes)
        sources = {t for block in graph.sources for t in block.outputs}
        lasting = self.lasting & sources
        k = 0

        def run(block: Block, is_late: bool, copies: Mapping[str, str]) -> None:
            for t in block.inputs:
                root = again[t] if is_late and t in again else roots[t]
                last[root] = k
                if block.operator == "sink":
                    lasting.add(root)
            for t in block.outputs:
                if not block.is_view:
                    made[copies.get(t, t)] = k
                elif is_late and block.inputs[0] in again:
                    again[t] = again[block.inputs[0]]

        for position, block in enumerate(graph.blocks):
            for other in repeated.get(position, ()):
                k += 1
                moves = early[other.site] == 0
                for t in other.outputs:
                    first = other.inputs[0] if other.is_view else ""
                    again[t] = again.get(first, roots[first]) if first else t if moves else f"{t} again"
                    size[again[t]] = size.get(again[t], size.get(t, 0))
                run(other, True, again)
            if early.get(block.site, 1):
                k += 1
                run(block, position > self.peak, {})
        change = np.zeros(k + 2, dtype=np.int64)
        for root, start in made.items():
            end = k if root in lasting else max(last.get(root, start), start)
            change[0 if root in sources else start] += size[root]
            change[end + 1] -= size[root]
        return ticks, int(np.cumsum(change).max())


def _sink_side(edges: Sequence[tuple[int, int, float]], count: int) -> set[int]:
    """Return the nodes on the side of node 1 of the minimum cut between nodes 0 and 1 that is nearest to node 1."""
    tails, heads, wanted = (np.array(column) for column in zip(*edges, strict=True))
    finite = wanted < inf
    scale = UNCUT / 2 / max(float(wanted[finite].sum()), 1.0)
    capacity = np.where(finite, np.rint(np.where(finite, wanted, 0) * scale), UNCUT).astype(np.int32)
    network = csr_array((capacity, (tails, heads)), shape=(count, count), dtype=np.int32)
    left = network - maximum_flow(network, 0, 1).flow
    left.eliminate_zeros()
    reached, _ = breadth_first_order(left.T.tocsr(), 1)
    return set(reached.tolist())
