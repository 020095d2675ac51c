"""From the program that was handed in to the one that is searched."""

from __future__ import annotations

from tapestry.teg.graph import Graph
from tapestry.teg.pruning import prune
from tapestry.teg.sharding.foreign import is_explicit, recover_foreign


def searched(graph: Graph) -> Graph:
    """The program that a search works on: of an explicit graph what it shards, and nothing that nobody observes.

    The same object where there is nothing to change.

    Raises:
        ValueError: an explicit graph whose shards do not verify.
    """
    return prune(recover_foreign(graph) if is_explicit(graph) else graph)
