"""The splittable share of a graph's work: flops and bytes in blocks that a proof shows to split at least four ways.

A block counts when some dimension of its signature splits over four devices and `verify` proves the result, or
when its whole index space has fewer than four points. Bytes are reads and writes; sources, sinks and views are free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tapestry.costmodel.block_cost import memory_parts
from tapestry.teg.builder import GraphBuilder
from tapestry.teg.graph import Definition, Graph, TensorType
from tapestry.teg.operators import operator_named
from tapestry.teg.operators.operator import Work, flops_of
from tapestry.teg.sharding.expand import expand
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placement, Placements
from tapestry.teg.sharding.spec import WHOLE, Split
from tapestry.teg.sharding.strategy import Strategy, splittable
from tapestry.teg.sharding.verify import verify

WAYS = 4
MESH_SHAPE = MeshShape.of(device=WAYS)
SPLIT = Split(tuple(axis.name for axis in MESH_SHAPE.sub_axes))

Types = tuple[TensorType, ...]


@dataclass
class Shardable:
    """The work of a graph by kind, and the operators whose blocks do not split, with the bytes they move."""

    flops: float = 0.0
    split_flops: float = 0.0
    moved_bytes: int = 0
    split_bytes: int = 0
    unsplit_bytes: Counter[str] = field(default_factory=Counter)

    @property
    def flops_share(self) -> float:
        """The share of flops in blocks that split; 1 where there is no work at all."""
        return self.split_flops / self.flops if self.flops else 1.0

    @property
    def bytes_share(self) -> float:
        """The share of bytes in blocks that split; 1 where nothing moves."""
        return self.split_bytes / self.moved_bytes if self.moved_bytes else 1.0


def shardable(graph: Graph) -> Shardable:
    """Compute the work of a graph, and how much of it splits."""
    total = Shardable()
    for block in graph.blocks:
        inputs, outputs = graph.input_types(block), graph.output_types(block)
        flops, moved = block_work(block.definition, inputs, outputs)
        total.flops += flops
        total.moved_bytes += moved
        if flops == moved == 0:
            continue
        if splits(block.definition, inputs, outputs):
            total.split_flops += flops
            total.split_bytes += moved
        else:
            total.unsplit_bytes[block.operator] += moved
    return total


@lru_cache(maxsize=65536)
def block_work(definition: Definition, inputs: Types, outputs: Types) -> tuple[float, int]:
    """Compute the flops, and the bytes read and written, of one whole block."""
    work = operator_named(definition.operator).work(definition, inputs, outputs)
    if work.kind == "none":
        return 0.0, 0
    names = [] if definition.signature is None else [d.name for d in definition.signature.dims]
    shape = () if definition.signature is None else definition.signature.index_range.shape
    flops = float(flops_of(work, names, np.array(shape, dtype=np.int64)))
    return flops, _whole_bytes(definition, work, shape, inputs, outputs)


def _whole_bytes(
    definition: Definition, work: Work, shape: Sequence[int], inputs: Types, outputs: Types
) -> int:
    """Count the bytes that a block reads and writes when one device computes all of it; 0 where it has no work."""
    index = np.array([(0, size) for size in shape], dtype=np.int64).reshape(1, 1, len(shape), 2)
    sizes = index[..., 1]
    if (sizes == 0).any():
        return 0
    return sum(int(part[0, 0]) for part in memory_parts(definition, work, index, sizes, inputs, outputs))


@lru_cache(maxsize=65536)
def splits(definition: Definition, inputs: Types, outputs: Types) -> bool:
    """Return whether some dimension splits four ways, proven by `verify`; True unproven for tiny index spaces."""
    signature = definition.signature
    if signature is None:
        return False
    if signature.index_range.size < WAYS:
        return True
    allowed = splittable(signature)
    candidates = [k for k, d in enumerate(signature.dims) if allowed[k] and d.size >= WAYS]
    return any(
        proven(definition, inputs, outputs, k)
        for k in sorted(candidates, key=lambda k: -signature.dims[k].size)
    )


def proven(definition: Definition, inputs: Types, outputs: Types, dim: int) -> bool:
    """Return whether the block alone, split over four devices along one dimension, is a correct sharding of itself."""
    assert definition.signature is not None
    builder = GraphBuilder("block")
    sites = [builder.source(f"in{k}", t.shape, t.dtype) for k, t in enumerate(inputs)]
    made = builder.apply(definition.operator, sites, site="block", **dict(definition.attributes))
    for site in made:
        builder.sink(site)
    graph = builder.build()
    strategy = Strategy(tuple(SPLIT if k == dim else WHOLE for k in range(len(definition.signature.dims))))
    placements = Placements({"block": Placement(strategy)})
    return not verify(graph, expand(graph, placements, MESH_SHAPE))
