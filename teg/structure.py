"""The structure of programs by networkx: layers, components, and bottlenecks by dominators.

Imported by whoever asks about the whole of a program; building and rewriting one does not need it.
"""

from __future__ import annotations

import networkx as nx

from tapestry.teg.graph import Graph

# The nodes that stand for everything before and after the blocks of a flow; no site is such a tuple.
BEFORE, AFTER = ("before",), ("after",)


def layers(graph: Graph) -> list[list[str]]:
    """Group the sites of blocks into layers: each block right behind the last of those it depends on."""
    return [list(layer) for layer in nx.topological_generations(graph.to_networkx())]


def components(graph: Graph) -> list[frozenset[str]]:
    """Divide the sites into parts that exchange no tensor and state no order, the largest part first."""
    parts = nx.weakly_connected_components(graph.to_networkx())
    return sorted(map(frozenset, parts), key=lambda part: (-len(part), min(part)))


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
