"""A graph while it is being rewritten: the one mutable thing here, alive for a few edits only.

A `Graph` is frozen, and its maps (producers, readers, blocks by site) cost a pass over the program. A draft
starts from copies of them, changes a neighbourhood at a time, and hands its maps on to the graph it becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from teg.graph import Block, Definition, Graph, Tensor

# Where a block stands in program order: its number in the graph, then places between numbers.
Position = tuple[int, ...]
Reader = tuple[Block, int]


class Draft:
    """Blocks, tensors, producers and readers of a graph, open to edits in O(neighbourhood).

    `changed` collects the sites of blocks that are new or read something else, `reread` the tensors whose
    readers changed.
    """

    def __init__(self, graph: Graph) -> None:
        self.name = graph.name
        self.data: Mapping[str, np.ndarray] = graph.data
        self.tensors: dict[str, Tensor] = dict(graph.tensors)
        self.blocks: dict[str, Block] = dict(graph.by_site)
        self.producers: dict[str, Block] = dict(graph.producers)
        self.readers: dict[str, tuple[Reader, ...]] = dict(graph.readers)
        self.positions: dict[str, Position] = {b.site: (k,) for k, b in enumerate(graph.blocks)}
        # Blocks with a place in an order of their own, a device or a part of the index space stay as they are.
        self.held = {s for b in graph.blocks if b.after for s in (b.site, *b.after)}
        self.changed: set[str] = set()
        self.reread: set[str] = set()
        self._alike: dict[Definition, dict[str, None]] = {}

    def alike(self, definition: Definition) -> list[Block]:
        """The blocks of this very definition, in program order."""
        if not self._alike:
            for block in self.blocks.values():
                self._alike.setdefault(block.definition, {})[block.site] = None
        found = [self.blocks[site] for site in self._alike.get(definition, ())]
        return sorted(found, key=lambda b: self.positions[b.site])

    def is_free(self, block: Block) -> bool:
        """Whether rules may match the block: it is not pinned, ordered or cut to a part."""
        return block.index is None and block.device is None and block.site not in self.held

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
        self.positions[block.site] = position
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
        del self.positions[site]
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
            self._swap(before, after)

    def move(self, site: str, position: Position) -> None:
        """Give a block another place in program order."""
        block = self.blocks[site]
        self.positions[site] = position
        for t in set(block.inputs):
            self._change_readers(t, block, block)

    def _swap(self, before: Block, after: Block) -> None:
        self.blocks[after.site] = after
        for t in after.outputs:
            self.producers[t] = after
        for t in {*before.inputs, *after.inputs}:
            self._change_readers(t, before, after)
        self.changed.add(after.site)

    def _change_readers(self, tensor: str, before: Block | None, after: Block | None) -> None:
        """The readers of a tensor, in program order, with one block gone and one come."""
        kept = [r for r in self.readers[tensor] if r[0] is not before and r[0] is not after]
        if after is not None:
            kept += [(after, k) for k, t in enumerate(after.inputs) if t == tensor]
            kept.sort(key=lambda r: (self.positions[r[0].site], r[1]))
        self.readers[tensor] = tuple(kept)
        self.reread.add(tensor)

    def graph(self) -> Graph:
        """The draft as a graph, which takes over the draft's maps: edit no further."""
        order = sorted(self.blocks.values(), key=lambda b: self.positions[b.site])
        tensors = {t: self.tensors[t] for b in order for t in b.outputs}
        data = self.data
        if any(t not in tensors for t in data):
            data = {t: v for t, v in data.items() if t in tensors}
        result = Graph(self.name, tuple(order), tensors, data)
        # `Graph` would compute these from its blocks when first asked; here they are known.
        vars(result).update(by_site=self.blocks, producers=self.producers, readers=self.readers)
        return result
