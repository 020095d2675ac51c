"""A graph while it is being rewritten: the one mutable thing here, alive for a few edits only.

A `Graph` is frozen, and its maps (producers, readers, blocks by site) cost a pass over the program. A draft
starts from copies of them, changes a neighbourhood at a time, and hands its maps on to the graph it becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from weakref import finalize

import numpy as np

from teg.graph import Block, Definition, Graph, Tensor

# Where a block stands in program order: its number in the graph, then places between numbers.
Position = tuple[int, ...]
Reader = tuple[Block, int]


class Order(NamedTuple):
    """Where the blocks of a graph stand, and which of them rules leave alone."""

    numbers: dict[str, int]
    held: frozenset[str]


# Computed once per graph and dropped with it: a graph is rewritten many times over.
_orders: dict[int, Order] = {}


def order_of(graph: Graph) -> Order:
    """The order of a graph's blocks."""
    known = _orders.get(id(graph))
    if known is None:
        # Blocks with a device, a part of the index space or a place in an order of their own stay as they are.
        # So do those whose costs the program gives: what a rule put there would have none.
        fixed = (
            b.site
            for b in graph.blocks
            if b.index is not None or b.device is not None or b.definition.costs is not None
        )
        ordered = (s for b in graph.blocks if b.after for s in (b.site, *b.after))
        known = Order({b.site: k for k, b in enumerate(graph.blocks)}, frozenset((*fixed, *ordered)))
        _orders[id(graph)] = known
        finalize(graph, _orders.pop, id(graph), None).atexit = False
    return known


class Draft:
    """Blocks, tensors, producers and readers of a graph, open to edits in O(neighbourhood).

    `changed` collects the sites of blocks that are new or read something else, `reread` the tensors whose
    readers changed.
    """

    def __init__(self, graph: Graph) -> None:
        self.base = graph
        self.numbers, self.held = order_of(graph)
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.blocks: dict[str, Block] = dict(graph.by_site)
        self.producers: dict[str, Block] = dict(graph.producers)
        self.readers: dict[str, tuple[Reader, ...]] = dict(graph.readers)
        self.changed: set[str] = set()
        self.reread: set[str] = set()
        # Positions of the blocks that do not stand where they stood, and who stands at a number now.
        self._positions: dict[str, Position] = {}
        self._standing: dict[int, dict[str, None]] = {}
        self._alike: dict[Definition, dict[str, None]] = {}

    @property
    def data(self) -> Mapping[str, np.ndarray]:
        """Values of sources."""
        return self.base.data

    def position(self, site: str) -> Position:
        """Where a block stands; positions compare as program order."""
        return self._positions.get(site) or (self.numbers[site],)

    def alike(self, definition: Definition) -> list[Block]:
        """The blocks of this very definition, in program order."""
        if not self._alike:
            for block in self.blocks.values():
                self._alike.setdefault(block.definition, {})[block.site] = None
        found = [self.blocks[site] for site in self._alike.get(definition, ())]
        return sorted(found, key=lambda b: self.position(b.site))

    def is_free(self, block: Block) -> bool:
        """Whether rules may match the block: it is not pinned, ordered or cut to a part."""
        return block.site not in self.held

    def free_site(self, wanted: str) -> str:
        """`wanted`, or the first `wanted.N` that names neither a block nor a tensor."""
        site, k = wanted, 1
        while site in self.blocks or site in self.tensors:
            site, k = f"{wanted}.{k}", k + 1
        return site

    def add(self, block: Block, position: Position, tensors: Iterable[Tensor] = ()) -> None:
        """Put in a block whose inputs exist; its outputs are among `tensors` or known already."""
        for tensor in tensors:
            self.tensors[tensor.site] = tensor
            self.readers.setdefault(tensor.site, ())
        self.blocks[block.site] = block
        self._stand(block.site, position)
        for t in block.outputs:
            self.producers[t] = block
        for t in set(block.inputs):
            self._change_readers(t, None, block)
        self.changed.add(block.site)
        if self._alike:
            self._alike.setdefault(block.definition, {})[block.site] = None

    def remove(self, site: str) -> None:
        """Take a block out; its output tensors stay known until `forget`."""
        block = self.blocks.pop(site)
        for t in set(block.inputs):
            self._change_readers(t, block, None)
        for t in block.outputs:
            self.producers.pop(t, None)
        self._standing_at(self.position(site)[0]).pop(site, None)
        self._positions.pop(site, None)
        self.changed.discard(site)
        if self._alike:
            del self._alike[block.definition][site]

    def forget(self, tensor: str) -> None:
        """Drop a tensor that nobody makes or reads."""
        del self.tensors[tensor]
        del self.readers[tensor]
        self.reread.discard(tensor)

    def redirect(self, old: str, new: str) -> None:
        """Let all readers of tensor `old` read `new`; they keep their sites."""
        for site in dict.fromkeys(b.site for b, _ in self.readers[old]):
            before = self.blocks[site]
            inputs = tuple(new if t == old else t for t in before.inputs)
            after = Block(
                site, before.definition, inputs, before.outputs, before.index, before.device, before.after
            )
            self._standing_at(self.position(site)[0])
            self.blocks[site] = after
            for t in after.outputs:
                self.producers[t] = after
            for t in {*before.inputs, *after.inputs}:
                self._change_readers(t, before, after)
            self.changed.add(site)

    def move(self, site: str, position: Position) -> None:
        """Give a block another place in program order."""
        block = self.blocks[site]
        self._standing_at(self.position(site)[0]).pop(site, None)
        self._stand(site, position)
        for t in set(block.inputs):
            self._change_readers(t, block, block)

    def _stand(self, site: str, position: Position) -> None:
        self._positions[site] = position
        self._standing_at(position[0])[site] = None

    def _standing_at(self, number: int) -> dict[str, None]:
        """The sites at this number; from now on it counts as changed."""
        if number not in self._standing:
            self._standing[number] = {self.base.blocks[number].site: None}
        return self._standing[number]

    def _change_readers(self, tensor: str, before: Block | None, after: Block | None) -> None:
        """The readers of a tensor, in program order, with one block gone and one come."""
        kept = [r for r in self.readers[tensor] if r[0] is not before and r[0] is not after]
        if after is not None:
            kept += [(after, k) for k, t in enumerate(after.inputs) if t == tensor]
            kept.sort(key=lambda r: (self.position(r[0].site), r[1]))
        self.readers[tensor] = tuple(kept)
        self.reread.add(tensor)

    def graph(self) -> Graph:
        """The draft as a graph, which takes over the draft's maps: edit no further."""
        pieces: list[Block] = []
        done = 0
        for number in sorted(self._standing):
            pieces += self.base.blocks[done:number]
            sites = sorted(self._standing[number], key=self.position)
            pieces += (self.blocks[s] for s in sites)
            done = number + 1
        pieces += self.base.blocks[done:]
        data = self.data
        if any(t not in self.tensors for t in data):
            data = {t: v for t, v in data.items() if t in self.tensors}
        tensors = {t: self.tensors[t] for b in pieces for t in b.outputs}
        result = Graph(self.base.name, tuple(pieces), tensors, data)
        # `Graph` would compute these from its blocks when first asked; here they are known.
        vars(result).update(by_site=self.blocks, producers=self.producers, readers=self.readers)
        return result
