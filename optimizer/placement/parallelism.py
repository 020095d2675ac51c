"""Names of kinds of parallelism, from what a plan splits: data, tensor, sequence and spatial parallel, fully sharded.

They follow from the matrix products, by which programs are known; where there are none, from all blocks.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import compress
from math import prod
from typing import NamedTuple

from tapestry.costmodel.degrees import is_product
from tapestry.optimizer.placement.operand_dims import NAMED_SHARE, operand_dims
from tapestry.teg.graph import Block, Graph
from tapestry.teg.sharding.boundary import with_boundary
from tapestry.teg.sharding.mesh_shape import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.possible_rounds import batch_dims

DATA, TENSOR, SEQUENCE, SPATIAL = "data", "tensor", "sequence", "spatial"
KINDS = (DATA, TENSOR, SEQUENCE, SPATIAL)
REPLICATED, FULLY_SHARDED = "replicated", "fully sharded"


class _KnownBlock(NamedTuple):
    """A block: its work, the kind of parallelism that a split of each index dimension is, the weights that it reads."""

    site: str
    work: float
    kinds: tuple[str, ...]
    weights: tuple[str, ...]


def parallelism(graph: Graph, placements: Placements, mesh_shape: MeshShape) -> str:
    """Return what a plan is called elsewhere, with degrees: `data parallel 4, tensor parallel 2`.

    A degree is that of most of the work that is split so. Where blocks differ, so that degrees need more devices than
    there are, it is `data parallel 4 or tensor parallel 4`. It is `fully sharded` where most bytes of the weights are
    split over sub-axes over which the products that read them split none of their dimensions.
    """
    placements = with_boundary(graph, placements)
    blocks = _blocks(graph)
    total = sum(block.work for block in blocks)
    work: dict[str, dict[int, float]] = {kind: defaultdict(float) for kind in KINDS}
    for block in blocks:
        parts = dict.fromkeys(KINDS, 1)
        splits = placements.of(graph.by_site[block.site]).strategy.splits
        for kind, split in zip(block.kinds, splits, strict=True):
            parts[kind] *= mesh_shape.size_of(split.axes)
        for kind, count in parts.items():
            if count > 1:
                work[kind][count] += block.work
    named = [
        (kind, max(found, key=lambda count: (found[count], count)))
        for kind, found in work.items()
        if total and sum(found.values()) >= NAMED_SHARE * total
    ]
    fits = prod(count for _, count in named) <= mesh_shape.device_count
    text = (", " if fits else " or ").join(f"{kind} parallel {count}" for kind, count in named) or REPLICATED
    return f"{FULLY_SHARDED}, {text}" if _is_fully_sharded(graph, placements, blocks) else text


def _is_fully_sharded(graph: Graph, placements: Placements, blocks: tuple[_KnownBlock, ...]) -> bool:
    """Return whether most weights are split over sub-axes over which none of their readers splits what weights have."""
    sizes, used = dict[str, int](), defaultdict[str, set[str]](set)
    for block in blocks:
        splits = placements.of(graph.by_site[block.site]).strategy.splits
        own = {
            axis
            for kind, split in zip(block.kinds, splits, strict=True)
            if kind == TENSOR
            for axis in split.axes
        }
        for tensor in block.weights:
            sizes[tensor] = graph.tensors[tensor].type.size_bytes
            used[tensor] |= own
    kept = {
        tensor: {axis for s in placements.of(graph.producers[tensor]).strategy.splits for axis in s.axes}
        for tensor in sizes
    }
    return 2 * sum(size for tensor, size in sizes.items() if kept[tensor] - used[tensor]) > sum(
        sizes.values()
    )


def _blocks(graph: Graph) -> tuple[_KnownBlock, ...]:
    """Return the products of a program, else all blocks that compute; the graph keeps them."""
    found: tuple[_KnownBlock, ...] | None = graph.kept.get("parallelism")
    if found is None:
        batch = batch_dims(graph)
        computing = [block for block in graph.blocks if block.signature and block.inputs and block.outputs]
        products = [block for block in computing if block.signature and is_product(block.signature)]
        found = graph.kept["parallelism"] = tuple(
            _known(graph, block, batch.get(block.site)) for block in products or computing
        )
    return found


def _known(graph: Graph, block: Block, batch: int | None) -> _KnownBlock:
    assert block.signature is not None
    signature = block.signature
    count, operands = range(len(signature.dims)), operand_dims(graph, block)
    others = operands.summed | operands.of_weights | operands.of_all_factors
    rows = [k for k in count if k != batch and k not in others]
    if (
        batch in operands.summed
    ):  # the gradient of a weight: its own dimensions are the others, and sums are over rows
        rows = [k for k in count if k != batch and k in operands.summed]
    has_window = any(extent > 1 for each in signature.inputs for extent in each.shape)
    of_rows = SPATIAL if has_window or len(rows) > 1 or not is_product(signature) else SEQUENCE
    kinds = (DATA if k == batch else of_rows if k in rows else TENSOR for k in count)
    weights = tuple(compress(operands.roots, operands.is_weight))
    return _KnownBlock(block.site, float(prod(dim.size for dim in signature.dims)), tuple(kinds), weights)
