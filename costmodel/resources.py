"""The costs supplied with the program, for a plan: every part of every block priced from its own table, summed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tapestry.teg.costs import Amount, total
from tapestry.teg.graph import Graph
from tapestry.teg.sharding.mesh import MeshShape
from tapestry.teg.sharding.placement import Placements
from tapestry.teg.sharding.strategy import index_boxes


def declared_resources(graph: Graph, placements: Placements, mesh: MeshShape) -> dict[str, Amount]:
    """Compute the amounts by resource over all devices, replicas included; empty where the program prices nothing."""
    return total(_priced(graph, placements, mesh.part(placements.devices)))


def _priced(graph: Graph, placements: Placements, mesh: MeshShape) -> Iterator[Mapping[str, Amount]]:
    for block in graph.blocks:
        table = block.definition.costs
        if table is None:
            continue
        dims = [d.name for d in block.signature.dims] if block.signature is not None else []
        index = index_boxes(block.signature, placements.of(block).strategy, mesh)
        for sizes in (index[..., 1] - index[..., 0]).tolist():
            yield table.price(dict(zip(dims, sizes, strict=True)))
