"""The structure of programs by networkx: layers, components, dominators, bottlenecks, cuts.

Imported by whoever asks about the whole of a program; building and rewriting one does not need it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import networkx as nx

from tapestry.teg.graph import Graph

# The nodes that stand for everything before and after the blocks of a flow; no site is such a tuple.
BEFORE, AFTER = ("before",), ("after",)


class Cut(NamedTuple):
    """The tensors that cross from one part of a program to the rest, and their bytes."""

    first: frozenset[str]
    tensors: tuple[str, ...]
    size_bytes: int


def layers(graph: Graph) -> list[list[str]]:
    """Group the sites of blocks into layers: each block right behind the last of those it depends on."""
    return [list(layer) for layer in nx.topological_generations(graph.to_networkx())]


def components(graph: Graph) -> list[frozenset[str]]:
    """Divide the sites into parts that exchange no tensor and state no order, the largest part first."""
    parts = nx.weakly_connected_components(graph.to_networkx())
    return sorted(map(frozenset, parts), key=lambda part: (-len(part), min(part)))


def dominators(graph: Graph) -> dict[str, str | None]:
    """Find for each block its immediate dominator: the last block that all paths to it pass; None without one.

    Paths begin at the blocks that depend on nothing. A block that dominates all sinks is a place to cut a program.
    """
    flow = nx.DiGraph(graph.to_networkx())
    flow.add_edges_from([(BEFORE, site) for site, degree in list(flow.in_degree()) if not degree])
    found = nx.immediate_dominators(flow, BEFORE)
    return {block.site: _site(found[block.site]) for block in graph.blocks}


def bottlenecks(graph: Graph) -> list[str]:
    """List the blocks, in program order, that every path from an activation to a sink passes; sinks left out."""
    flow = nx.DiGraph(graph.to_networkx())
    inputs = [b.site for b in graph.sources if b.definition.get("role", "activation") == "activation"]
    flow.add_edges_from([(BEFORE, site) for site in inputs] + [(b.site, AFTER) for b in graph.sinks])
    if AFTER not in flow or BEFORE not in flow or not nx.has_path(flow, BEFORE, AFTER):
        return []
    above = nx.immediate_dominators(flow, BEFORE)
    found = []
    site = above[AFTER]
    while site != BEFORE:
        found.append(site)
        site = above[site]
    ends = {block.site for block in graph.roots}
    return [site for site in reversed(found) if site not in ends]


def minimum_cut(graph: Graph, first: Collection[str], last: Collection[str]) -> Cut:
    """Cut a program between blocks `first` and blocks `last` where the fewest bytes cross.

    A tensor counts once however many blocks read it behind the cut. Sources of parameters may stand on either
    side. Max-flow by networkx over blocks and tensors.

    Raises:
        ValueError: a site that is unknown or in both, or one of `first` that depends on one of `last`.
    """
    for site in (*first, *last):
        if site not in graph.by_site:
            raise ValueError(f"the graph has no block {site!r}")
    if both := set(first) & set(last):
        raise ValueError(f"block {min(both)!r} cannot be on both sides of the cut")
    flow = nx.DiGraph()
    flow.add_edges_from((BEFORE, site) for site in first)
    flow.add_edges_from((site, AFTER) for site in last)
    for block in graph.blocks:
        for tensor in block.outputs:
            into = (tensor, "made")
            flow.add_edge(block.site, into, capacity=graph.tensors[tensor].type.size_bytes)
            # Whoever reads a tensor stands behind the block that makes it: never back across the cut.
            for reader, _ in graph.readers[tensor]:
                flow.add_edge(into, reader.site)
                flow.add_edge(reader.site, block.site)
        for site in block.after:
            flow.add_edge(block.site, site)
    try:
        size_bytes, (near, _) = nx.minimum_cut(flow, BEFORE, AFTER)
    except nx.NetworkXUnbounded:
        raise ValueError("a block of `first` depends on one of `last`: no cut lies between them") from None
    kept = frozenset(block.site for block in graph.blocks if block.site in near)
    crossing = tuple(
        tensor
        for block in graph.blocks
        if block.site in kept
        for tensor in block.outputs
        if any(reader.site not in kept for reader, _ in graph.readers[tensor])
    )
    return Cut(kept, crossing, int(size_bytes))


def _site(node: Any) -> str | None:
    return node if isinstance(node, str) else None
