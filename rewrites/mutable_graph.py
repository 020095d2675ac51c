"""A graph that is being rewritten: the one mutable structure here, used for a few edits only.

A `Graph` is frozen, and its maps (producers, readers, blocks by site) cost a pass over the program. A draft
starts from copies of them, changes a neighborhood at a time, and passes its maps on to the graph it becomes,
as it does with the places in program order: copying a map costs nanoseconds per entry, rebuilding it a
hundred times that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple
from weakref import finalize

import numpy as np

from tapestry.teg.fixed import is_made_fixed
from tapestry.teg.graph import Block, Definition, Graph, Tensor

# Where a block stands in program order: a number, then places between numbers, as tuples compare.
Position = tuple[int, ...]
Reader = tuple[Block, int]

# Places between places between places: deeper ones are numbered anew with the next draft.
DEEPEST = 12


class ProgramOrder(NamedTuple):
    """The program order of blocks, the blocks that rules may not match, and those known to be alike."""

    positions: Mapping[str, Position]
    held: frozenset[str]
    alike: Mapping[Definition, tuple[str, ...]]


# Computed once per graph and dropped with it: a graph is rewritten many times over.
_orders: dict[int, ProgramOrder] = {}


def program_order_of(graph: Graph) -> ProgramOrder:
    """Return the order of a graph's blocks."""
    known = _orders.get(id(graph))
    if known is None:
        # Blocks with a device, a part of the index space or a place in an order of their own stay as they are.
        # So do those whose costs the program gives: what a rule put there would have none, and those that the program
        # makes fixed: what a rule put there could be sharded.
        fixed = (
            b.site
            for b in graph.blocks
            if b.index is not None
            or b.device is not None
            or b.definition.costs is not None
            or is_made_fixed(b.definition, graph.input_types(b))
        )
        ordered = (s for b in graph.blocks if b.after for s in (b.site, *b.after))
        positions = {b.site: (k,) for k, b in enumerate(graph.blocks)}
        alike: dict[Definition, tuple[str, ...]] = {}
        for block in graph.blocks:
            if not block.inputs:
                alike[block.definition] = (*alike.get(block.definition, ()), block.site)
        known = _keep(graph, ProgramOrder(positions, frozenset((*fixed, *ordered)), alike))
    return known


def _keep(graph: Graph, order: ProgramOrder) -> ProgramOrder:
    _orders[id(graph)] = order
    finalize(graph, _orders.pop, id(graph), None).atexit = False
    return order


class MutableGraph:
    """The blocks, tensors, producers and readers of a graph, open to edits in O(neighborhood).

    `changed` collects the sites of blocks that are new, removed, read other tensors or have moved, `reread`
    the tensors whose readers changed; `put_in` and `taken_out` the blocks added and removed, one by one. `data` are
    the values of sources.
    """

    def __init__(self, graph: Graph) -> None:
        self.base = graph
        self.program_order = program_order_of(graph)
        self.held = self.program_order.held
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.blocks: dict[str, Block] = dict(graph.by_site)
        self.producers: dict[str, Block] = dict(graph.producers)
        self.readers: dict[str, tuple[Reader, ...]] = dict(graph.readers)
        self.data: Mapping[str, np.ndarray] = graph.data
        self.changed: set[str] = set()
        self.reread: set[str] = set()
        self.put_in: list[Block] = []
        self.taken_out: list[Block] = []
        self._positions: dict[str, Position] = dict(self.program_order.positions)
        self._alike: dict[Definition, tuple[str, ...]] = dict(self.program_order.alike)
        # Blocks that are not, or not where, they were in the graph; what is no longer made.
        self._touched: set[str] = set()
        self._forgotten: set[str] = set()

    def know(self, tensor: str, value: np.ndarray) -> None:
        """Set the data of a new constant."""
        value.setflags(write=False)
        self.data = {**self.data, tensor: value}

    def current_order(self) -> ProgramOrder:
        """Return the current positions of the blocks, those that rules may not match, and those that are alike."""
        return ProgramOrder(self._positions, self.held, self._alike)

    def position(self, site: str) -> Position:
        """Return the position of a block; positions compare as program order."""
        return self._positions[site]

    def ordered(self, sites: Iterable[str]) -> list[Block]:
        """List the blocks at these sites, in program order."""
        return [self.blocks[s] for s in sorted(sites, key=self.position)]

    def is_free(self, block: Block) -> bool:
        """Return whether rules may match the block: it is not pinned, ordered or cut to a part."""
        return block.site not in self.held

    def free_site(self, wanted: str) -> str:
        """Return `wanted`, or the first `wanted.N` that names neither a block nor a tensor."""
        site, k = wanted, 1
        while site in self.blocks or site in self.tensors:
            site, k = f"{wanted}.{k}", k + 1
        return site

    def add(self, block: Block, position: Position, tensors: Iterable[Tensor] = ()) -> None:
        """Add a block whose inputs exist; its outputs are among `tensors` or known already."""
        for tensor in tensors:
            self.tensors[tensor.site] = tensor
            self.readers.setdefault(tensor.site, ())
        self.blocks[block.site] = block
        self._positions[block.site] = position
        self._touched.add(block.site)
        for t in block.outputs:
            self.producers[t] = block
        for t in set(block.inputs):
            self._change_readers(t, None, block)
        if not block.inputs:
            self._alike[block.definition] = (*self._alike.get(block.definition, ()), block.site)
        self.changed.add(block.site)
        self.put_in.append(block)

    def remove(self, site: str) -> None:
        """Remove a block; its output tensors stay known until `clear_reads`."""
        block = self.blocks.pop(site)
        for t in set(block.inputs):
            self._change_readers(t, block, None)
        for t in block.outputs:
            self.producers.pop(t, None)
        if not block.inputs:
            self._alike[block.definition] = tuple(s for s in self._alike[block.definition] if s != site)
        del self._positions[site]
        self._touched.add(site)
        self.changed.add(site)
        self.taken_out.append(block)

    def clear_reads(self, tensor: str) -> None:
        """Drop a tensor that has neither producer nor readers."""
        del self.tensors[tensor]
        del self.readers[tensor]
        self._forgotten.add(tensor)

    def redirect(self, old: str, new: str, readers: Collection[str] | None = None) -> None:
        """Make the readers of tensor `old`, or those of these sites, read `new`; they keep their sites."""
        for site in dict.fromkeys(b.site for b, _ in self.readers[old]):
            if readers is not None and site not in readers:
                continue
            before = self.blocks[site]
            inputs = tuple(new if t == old else t for t in before.inputs)
            after = replace(before, inputs=inputs)
            self._touched.add(site)
            self.blocks[site] = after
            for t in after.outputs:
                self.producers[t] = after
            for t in {*before.inputs, *after.inputs}:
                self._change_readers(t, before, after)
            self.changed.add(site)

    def move(self, site: str, position: Position) -> None:
        """Move a block to another place in program order."""
        block = self.blocks[site]
        self._positions[site] = position
        self._touched.add(site)
        self.changed.add(site)
        for t in set(block.inputs):
            self._change_readers(t, block, block)

    def _change_readers(self, tensor: str, before: Block | None, after: Block | None) -> None:
        """Update the readers of a tensor, in program order: remove block `before`, add block `after`."""
        kept = [r for r in self.readers[tensor] if r[0] is not before and r[0] is not after]
        if after is not None:
            kept += [(after, k) for k, t in enumerate(after.inputs) if t == tensor]
            kept.sort(key=lambda r: (self.position(r[0].site), r[1]))
        self.readers[tensor] = tuple(kept)
        self.reread.add(tensor)

    def graph(self) -> Graph:
        """Build a graph from the draft; the graph takes over the draft's maps, so do not edit further."""
        data = self.data
        if not self._forgotten.isdisjoint(data):
            data = {t: v for t, v in data.items() if t in self.tensors}
        external = {t: named for t, named in self.base.external.items() if t in self.tensors}
        result = Graph(self.base.name, self._in_order(), self.tensors, data, external)
        # `Graph` would compute these from its blocks when first asked; here they are known.
        vars(result).update(by_site=self.blocks, producers=self.producers, readers=self.readers)
        deepest = max((len(self._positions.get(s, ())) for s in self._touched), default=1)
        if deepest <= DEEPEST:
            _keep(result, self.current_order())
        return result

    def _in_order(self) -> tuple[Block, ...]:
        """List the blocks in program order: runs of the graph's, and between them new and moved ones."""
        before, old = self.program_order.positions, self.base.blocks
        gone = {self._number(before[s]) for s in self._touched if s in before}
        new = sorted((self._positions[s], s) for s in self._touched if s in self._positions)
        come: dict[int, list[Block]] = {}
        for position, site in new:
            come.setdefault(self._number(position), []).append(self.blocks[site])
        pieces: list[Block] = []
        done = 0
        for number in sorted(gone | come.keys()):
            pieces += old[done:number]
            pieces += come.get(number, ())
            done = number + (number in gone)
        return (*pieces, *old[done:])

    def _number(self, position: Position) -> int:
        """Return the number of the graph's first block at or after a position."""
        before = self.program_order.positions
        return bisect_left(self.base.blocks, position, key=lambda b: before[b.site])
