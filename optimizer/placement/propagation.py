"""Placement propagation: blocks without a decision are placed as their neighbors are, so that tensors stay in place.

Each input and output that a neighbor has split proposes a split of the index dimension that runs along it; the
largest tensor comes first. A block without a legal placement stays whole on every device.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.check import check_placements
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Spec, Split
from tapestry.teg.sharding.strategy import Strategy, consumer_spec, producer_spec, read_of, splittable
from tapestry.teg.signature import rows_of

# A preference: the size of the tensor, the index dimension that runs along one of its dimensions, and the axes there.
Preference = tuple[int, int, tuple[str, ...]]


def propagate_placements(
    graph: Graph, placements: Placements, sites: Collection[str], mesh_shape: MeshShape
) -> Placements:
    """Propagate placements to these blocks too: in program order along their inputs, then back along readers."""
    waiting = [block for block in graph.blocks if block.site in sites and block.signature is not None]
    for order in (waiting, waiting[::-1]):
        for block in order:
            if block.site in placements.blocks:
                continue
            strategy = _agreed(block, sorted(_preferences(graph, block, placements), reverse=True))
            placed = {**placements.blocks, block.site: Placement(strategy)}
            alone = replace(placements, blocks={block.site: placed[block.site]})
            if any(s.axes for s in strategy.splits) and not check_placements(graph, alone, mesh_shape):
                placements = replace(placements, blocks=placed)
    return placements


def _agreed(block: Block, preferences: list[Preference]) -> Strategy:
    """Choose at most one split per index dimension, using each axis once; the first wishes take precedence."""
    allowed = splittable(block.signature)
    splits, taken = [WHOLE] * len(allowed), set[str]()
    for _, dim, axes in preferences:
        if allowed[dim] and splits[dim] is WHOLE and not taken & set(axes):
            splits[dim] = Split(axes)
            taken |= set(axes)
    return Strategy(tuple(splits))


def _preferences(graph: Graph, block: Block, placements: Placements) -> Iterator[Preference]:
    """Yield the splits proposed by the placed producers of a block's inputs and the placed readers of its outputs."""
    for position in range(len(block.inputs)):
        read = read_of(graph, block.site, position)
        producer, made = graph.producers[read.root], graph.tensors[read.root]
        if producer.site in placements.blocks:
            place = producer.outputs.index(read.root)
            strategy = placements.blocks[producer.site].strategy
            spec = producer_spec(producer.signature, place, len(made.shape), strategy)
            yield from _along([row.dim for row in read.rows], spec, made.type.size_bytes)
    assert block.signature is not None
    for place, tensor in enumerate(block.outputs):
        dims = [-1 if row is None else row.dim for row in rows_of(block.signature.outputs[place])]
        made = graph.tensors[tensor]
        for reader, position in graph.readers[tensor]:
            if reader.site in placements.blocks:
                rows = read_of(graph, reader.site, position).rows
                strategy = placements.blocks[reader.site].strategy
                if len(rows) == len(made.shape):
                    spec = consumer_spec(rows, made.shape, reader.signature, strategy)
                    yield from _along(dims, spec, made.type.size_bytes)


def _along(dims: list[int], spec: Spec, size_bytes: int) -> Iterator[Preference]:
    for dim, split in zip(dims, spec.dims, strict=True):
        if dim >= 0 and split.axes:
            yield size_bytes, dim, split.axes
