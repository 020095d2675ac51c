"""Parts of explicit graphs: what some devices run, or what some blocks of the program became, as programs of their own.

What a part reads from outside is a source of it, pinned where it is made (`NAME.received`); sources of the program
stay what they are. What others read of it is a sink (`NAME.sent`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from tapestry.teg.builder import define
from tapestry.teg.faults import near_hint
from tapestry.teg.graph import Block, Graph, Tensor, attributes
from tapestry.teg.model_layers import is_called, model_layers
from tapestry.teg.sharding.materialize import ExplicitNodes
from tapestry.teg.sharding.nodes import Node

PRUNED = 10_000
TypedBlock = tuple[Block, Sequence[Tensor]]
"""A block and its output tensors."""


class PartError(ValueError):
    """Error raised for something that an explicit graph does not have; `option` is device, layer or block."""

    def __init__(self, option: str, message: str) -> None:
        super().__init__(message)
        self.option = option


@dataclass(frozen=True)
class GraphPart:
    """A part of an explicit graph: what is on one of the devices, in one of the layers, and of one of the blocks.

    None given are all. Layers are named as `teg.model_layers` says; blocks by patterns of sites, in which `*` stands
    for any text.
    """

    devices: tuple[int, ...] = ()
    layers: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return not (self.devices or self.layers or self.blocks)

    def has(self, device: int) -> bool:
        """Return whether blocks on a device are in the part, as far as devices say."""
        return not self.devices or device in self.devices

    def sites(self, graph: Graph, device_count: int) -> frozenset[str]:
        """Return the sites of the abstract graph whose shards are in the part, as far as layers and blocks say.

        Raises:
            PartError: a device, layer or block does not exist.
        """
        absent = [device for device in self.devices if not 0 <= device < device_count]
        if absent:
            names = ", ".join(map(str, absent))
            raise PartError("device", f"there is no device {names}; the plan uses 0 to {device_count - 1}")
        sites = [block.site for block in graph.blocks]
        found = frozenset(sites)
        if self.layers:
            layer_of = model_layers(graph)
            known = list(dict.fromkeys(layer_of.values()))
            for name in self.layers:
                if not any(is_called(layer, name) for layer in known):
                    raise PartError("layer", f"there is no layer {name!r}; {near_hint(name, known)}")
            found &= {s for s, layer in layer_of.items() if any(is_called(layer, n) for n in self.layers)}
        for pattern in self.blocks:
            if not any(fnmatchcase(site, pattern) for site in sites):
                raise PartError("block", f"no block is called {pattern!r}; {near_hint(pattern, sites)}")
        if self.blocks:
            found &= {site for site in sites if any(fnmatchcase(site, pattern) for pattern in self.blocks)}
        return found


def part_nodes(nodes: ExplicitNodes, part: GraphPart) -> Iterator[TypedBlock]:
    """Take the nodes of a part, with a source for what it reads from outside and a sink for what others read of it.

    Raises:
        PartError: a device, layer or block does not exist.
    """
    if part.is_whole:
        return ((node.block, node.outputs) for node in nodes)
    sites = part.sites(nodes.abstract, nodes.explicit.mesh_shape.device_count)
    return _PartNodes(nodes, part, sites).run()


class _PartNodes:
    def __init__(self, nodes: ExplicitNodes, part: GraphPart, sites: frozenset[str]) -> None:
        self.nodes, self.part, self.sites = nodes, part, sites
        self.sources: dict[str, Node] = {}
        self.inside: dict[str, bool] = {}  # whether a tensor of the part has a sink, or needs none
        self.room = PRUNED
        self.written: set[str] = set()

    def run(self) -> Iterator[TypedBlock]:
        for node in self.nodes:
            block = node.block
            is_point = block.operator == "sequence_point"
            if is_point or (node.site in self.sites and self.part.has(block.device or 0)):
                yield from self._with_sources(node)
            elif block.operator == "source":
                self.sources[block.outputs[0]] = node
            else:
                yield from self._sinks(block)

    def _with_sources(self, node: Node) -> Iterator[TypedBlock]:
        """Yield a node of the part, behind the sources of what it reads from outside."""
        block = node.block
        for tensor in block.inputs:
            if tensor in self.inside:
                continue
            self.inside[tensor] = True
            if tensor in self.sources:
                source = self.sources.pop(tensor)
                yield source.block, source.outputs
            else:
                yield self._received(tensor)
        self._prune()
        self.inside.update((tensor.site, block.operator == "source") for tensor in node.outputs)
        if self.nodes.awaited:
            after = tuple(site for site in block.after if site in self.written)
            block = replace(block, after=after)
            self.written.add(block.site)
        yield block, node.outputs

    def _received(self, tensor: str) -> TypedBlock:
        made = self.nodes.tensors[tensor]
        attrs = attributes(shape=made.shape, dtype=made.dtype, role="activation")
        definition, _ = define("source", attrs, ())
        device = self.nodes.devices[tensor]
        return Block(f"{tensor}.received", definition, (), (tensor,), device=device), (made,)

    def _sinks(self, reader: Block) -> Iterator[TypedBlock]:
        """Yield a sink for what a block outside is the first to read of the part."""
        for tensor in reader.inputs:
            if self.inside.get(tensor, True):
                continue
            self.inside[tensor] = True
            definition, _ = define("sink", (), (self.nodes.tensors[tensor].type,))
            device = self.nodes.devices[tensor]
            yield Block(f"{tensor}.sent", definition, (tensor,), (), device=device), ()

    def _prune(self) -> None:
        """Forget tensors that nothing reads any more, whenever there are twice as many as the last time."""
        if len(self.inside) > self.room:
            known = self.nodes.tensors
            self.inside = {tensor: done for tensor, done in self.inside.items() if tensor in known}
            self.room = max(PRUNED, 2 * len(self.inside))
