"""Pruning of a graph to its observed part: all that a sink or a sequence point depends on, and nothing else."""

from __future__ import annotations

from tapestry.teg.graph import Block, Graph


def observed(graph: Graph) -> frozenset[str]:
    """Return the sites of the blocks on which sinks and sequence points depend, those roots included.

    Sinks are never left out; a sequence point observes what it waits for. Needs no program order.
    """
    found = {b.site for b in graph.roots}
    waiting: list[Block] = list(graph.roots)
    while waiting:
        block = waiting.pop()
        producers = [graph.producers[t].site for t in block.inputs if t in graph.producers]
        for site in (*producers, *block.after):
            if site in graph.by_site and site not in found:
                found.add(site)
                waiting.append(graph.by_site[site])
    return frozenset(found)


def prune(graph: Graph) -> Graph:
    """Remove the blocks that are not observed; return the same object where everything is observed."""
    kept = observed(graph)
    if len(kept) == len(graph.blocks):
        return graph
    return graph.replace(b for b in graph.blocks if b.site in kept)
