"""The division of a program into the parts of a pipeline: equal work for each, and little that goes from one to
another.

Every block has an *anchor*, the place in the way forward through the program to which it belongs. Blocks on the way
forward are their own anchors, in program order. The way back begins where most is stored, behind the first use of the
last parameter; a block there belongs to the earliest of what it reads, such as the weights and the stored values of one
layer. What waits on the host belongs to what makes it. Parts are cut between anchors, so that forward and backward of a
layer, its parameters, their states and their updates are in one part.

Imported by what compiles variants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import inf

import numpy as np

from tapestry.costmodel.space_compiler import LIVES_ON
from tapestry.costmodel.unsharded import UnshardedCosts, live_bytes
from tapestry.hardware.device import Device
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.host import is_on_host

# What is smaller than this share of the largest thing a block reads does not say where the block belongs.
SMALL = 1 / 64
# What is read over more than this share of the way forward, such as a mask of all layers, does not either.
WIDE = 1 / 6
# The most places between which cuts are chosen: those that least goes across.
MOST_PLACES = 160


@lru_cache(maxsize=64)
def divided(
    graph: Graph, devices: tuple[Device, ...], bytes_per_s: float, slack: float = 0.0, rounds: int = 1
) -> Mapping[str, int]:
    """Divide a program into parts of about equal time, one for each device; return the part of each block by its site.

    What goes from part to part takes time by `bytes_per_s`. There are fewer parts where a program has fewer places to
    cut. With some `slack`, no part takes longer than the longest by more than this share, and the part that stores most
    stores as little as possible: of `rounds`, the earlier parts of a pipeline hold what more of them store (1F1B).
    """
    found = _Anchors(graph)
    anchors = found.run()
    length = 1 + max(anchors.values(), default=0)
    works = {device: np.zeros(length) for device in devices}
    for device, work in works.items():
        for site, sums in UnshardedCosts(device).by_site(graph).items():
            work[anchors[site]] += sums.time_ticks
    crossing = crossing_bytes(graph, anchors, length)
    ends = [0, *_places(crossing), length]
    sent = [*(crossing / bytes_per_s * 1e12).tolist(), 0.0]
    totals = [np.concatenate([[0.0], np.cumsum(works[device])]).tolist() for device in devices]

    def time_of(part: int, start: int, end: int) -> float:
        return float(totals[part][end] - totals[part][start] + sent[end])

    best = _cuts(ends, len(devices), time_of, sent)
    if slack and best is not None:
        stored, kept = (np.concatenate([[0], np.cumsum(each)]).tolist() for each in found.memory(length))
        limit = (1 + slack) * best[0]

        def bytes_of(part: int, start: int, end: int) -> float:
            if time_of(part, start, end) > limit:
                return inf
            held = min(rounds, len(devices) - part) / rounds
            return float(stored[end] - stored[start] + held * (kept[end] - kept[start]))

        best = _cuts(ends, len(devices), bytes_of, sent) or best
    cuts = np.array([] if best is None else best[1], dtype=np.int64)
    return {site: int(np.searchsorted(cuts, at, side="right")) for site, at in anchors.items()}


def anchors_of(graph: Graph) -> dict[str, int]:
    """Return the anchor of each block but views, as a number of the blocks on the way forward."""
    found = _Anchors(graph)
    return found.run()


def has_way_back(graph: Graph) -> bool:
    """Return whether a program reads most of its parameters again behind its way forward, as a training step does."""
    found = _Anchors(graph)
    return found.turn_place() < len(found.blocks) - 1


class _Anchors:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.blocks = [b for b in graph.blocks if b.operator != "source" and not b.is_view]
        self.place = {b.site: k for k, b in enumerate(self.blocks)}
        self.readers: dict[str, list[Block]] = {}
        for block in self.blocks:
            for tensor in block.inputs:
                self.readers.setdefault(self._root(tensor), []).append(block)
        self.anchors: dict[str, int] = {}

    def _root(self, tensor: str) -> str:
        while (maker := self.graph.producers[tensor]).is_view:
            tensor = maker.inputs[0]
        return tensor

    def _role(self, tensor: str) -> str:
        maker = self.graph.producers[tensor]
        return str(maker.definition.get("role") or "") if maker.operator == "source" else ""

    def run(self) -> dict[str, int]:
        self.turn = self.turn_place()
        anywhere = []
        for block in self.blocks:
            at = self.place[block.site]
            if is_on_host(block):
                self.anchors[block.site] = self.anchors[self.graph.producers[block.inputs[0]].site]
                continue
            back = at if at <= self.turn else self._back(block)
            self.anchors[block.site] = self.turn if back is None else back
            anywhere += [block] if back is None else []
        for block in reversed(anywhere):
            first = next((r for tensor in block.outputs for r in self.readers.get(tensor, ())), None)
            if first is not None:
                self.anchors[block.site] = self.anchors[first.site]
        carried = {source.site: sink for sink, source in self.graph.carriers.items()}
        for source in self.graph.sources:
            self.anchors[source.site] = self._of_source(source)
        for source_site, sink in carried.items():
            self.anchors[sink] = self.anchors[source_site]
        return self.anchors

    def memory(self, length: int) -> tuple[np.ndarray, np.ndarray]:
        """Count the bytes that belong to each place, `(length,)`: of what lasts, with a gradient for each parameter
        where there is a way back, and of what is made on the way forward and read on the way back.
        """
        stored, kept = np.zeros(length), np.zeros(length)
        comes_back = self.turn < len(self.blocks) - 1
        for source in self.graph.sources:
            role = self._role(source.outputs[0])
            if role in LIVES_ON:
                times = 2 if role == "parameter" and comes_back else 1
                stored[self.anchors[source.site]] += times * self._size(source.outputs[0])
        for block in self.blocks[: self.turn + 1]:
            for tensor in block.outputs:
                last = max((self.place[r.site] for r in self.readers.get(tensor, ())), default=0)
                if last > self.turn:
                    kept[self.anchors[block.site]] += self._size(tensor)
        return stored, kept

    def turn_place(self) -> int:
        """Return the last place of the way forward: behind the first use of every parameter, where most is stored.

        A program that reads most parameters once has no way back.
        """
        reads = [
            [self.place[block.site] for block in self.readers[t]]
            for source in self.graph.sources
            for t in source.outputs
            if self._role(t) == "parameter" and self.readers.get(t)
        ]
        last = len(self.blocks) - 1
        if 2 * sum(len(places) > 1 for places in reads) < max(len(reads), 1):
            return last
        live = np.array(live_bytes(self.graph))
        most = int(live.argmax()) * len(self.blocks) // len(live)
        return min(last, max(most, *(places[0] for places in reads)))

    def _back(self, block: Block) -> int | None:
        """Return the anchor of a block on the way back: the earliest of what it reads, small things aside.

        None where nothing says it: the block belongs to the first that reads it.
        """
        read = [(self._anchor(root), self._size(root)) for root in map(self._root, block.inputs)]
        known = [(at, size) for at, size in read if at is not None]
        if not known:
            return None
        largest = max(size for _, size in known)
        return min(at for at, size in known if size >= SMALL * largest)

    def _size(self, tensor: str) -> int:
        return self.graph.tensors[tensor].type.size_bytes

    def _anchor(self, tensor: str) -> int | None:
        """Return where a stored tensor belongs; None for what much of the way forward reads, or none, and for no
        floats.
        """
        if not self.graph.tensors[tensor].dtype.startswith(("float", "bfloat")):
            return None
        maker = self.graph.producers[tensor]
        reads = (self.place[b.site] for b in self.readers.get(tensor, ()))
        forward = [at for at in reads if at <= self.turn]
        if forward and max(forward) - min(forward) > WIDE * self.turn:
            return None
        if maker.operator != "source":
            return self.anchors[maker.site]
        return min(forward, default=None)

    def _of_source(self, source: Block) -> int:
        """Return the anchor of a source: that of its first reader."""
        readers = [r for tensor in source.outputs for r in self.readers.get(tensor, ())]
        forward = [self.place[r.site] for r in readers if self.place[r.site] <= self.turn]
        if forward:
            return min(forward)
        return min((self.anchors[r.site] for r in readers), default=0)


def crossing_bytes(graph: Graph, anchors: Mapping[str, int], length: int) -> np.ndarray:
    """Count the bytes that cross each place, `(length,)`: of tensors made on one side and read on the other.

    Place k is before anchor k. Parameters that several places read count as well.
    """
    changes = np.zeros(length + 1)
    for block in graph.blocks:
        if block.is_view:
            continue
        for tensor in block.outputs:
            size = graph.tensors[tensor].type.size_bytes
            ends = [anchors[block.site], *_reader_anchors(graph, tensor, anchors)]
            changes[min(ends) + 1] += size
            changes[max(ends) + 1] -= size
    return np.cumsum(changes)[:length]


def _reader_anchors(graph: Graph, tensor: str, anchors: Mapping[str, int]) -> list[int]:
    found: list[int] = []
    for reader, _ in graph.readers[tensor]:
        if reader.is_view:
            for output in reader.outputs:
                found += _reader_anchors(graph, output, anchors)
        else:
            found.append(anchors[reader.site])
    return found


def _places(crossing: np.ndarray) -> list[int]:
    """Return the places between which cuts are chosen: all, or those of many windows that least goes across."""
    places = np.arange(1, len(crossing))
    if len(places) > MOST_PLACES:
        windows = np.array_split(places, MOST_PLACES)
        places = np.array([w[np.argmin(crossing[w])] for w in windows])
    return [int(place) for place in places]


def _cuts(
    ends: Sequence[int], count: int, price: Callable[[int, int, int], float], sent: Sequence[float]
) -> tuple[float, list[int]] | None:
    """Return the price of the dearest part and the places of the cuts by which that is least; then least is sent.

    `price` is that of a part from one of the `ends` to another, infinite if there is none. The cuts are found by
    dynamic programming. None if there are none.
    """
    best: dict[int, tuple[float, float, tuple[int, ...]]] = {0: (0.0, 0.0, ())}
    for part in range(count):
        following: dict[int, tuple[float, float, tuple[int, ...]]] = {}
        for end in ends[1:] if part < count - 1 else ends[-1:]:
            for start, (dearest, going, cuts) in best.items():
                if start >= end or (here := price(part, start, end)) == inf:
                    continue
                found = (max(dearest, here), going + sent[end], (*cuts, end))
                if end not in following or found[:2] < following[end][:2]:
                    following[end] = found
        best = following or best
    if ends[-1] not in best:
        return None
    dearest, _, cuts = best[ends[-1]]
    return dearest, [cut for cut in cuts if cut < ends[-1]]
