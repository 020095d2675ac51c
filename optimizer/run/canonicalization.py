"""Canonicalization of the original program to the one that is searched."""

from __future__ import annotations

from tapestry.teg.graph import Graph
from tapestry.teg.pruning import prune
from tapestry.teg.sharding.external_graphs import is_explicit, recover_external


def canonicalize(graph: Graph) -> Graph:
    """Return the program that a search works on: what an explicit graph shards, without unobserved values.

    The same object is returned where there is nothing to change.

    Raises:
        ValueError: the shards of an explicit graph do not verify.
    """
    return prune(recover_external(graph) if is_explicit(graph) else graph)
