"""Families of programs: those that differ in sizes or the number of equal layers only, by the names of blocks."""

from __future__ import annotations

import hashlib
import re

from tapestry.teg.graph import Graph
from tapestry.teg.operators.block_class import class_of_block

# Classes of operators whose names decide.
HEAVY = ("product", "reduction")
# What distinguishes one layer from the next in a name, and a block that a rewrite has made: numbers, and hashes.
_COUNTED = re.compile(r"[._]?(?:(?<=\.)[0-9a-f]{8}\b|[0-9]+)")


def site_pattern(site: str) -> str:
    """Return the name of a site without what differs from layer to layer: `h.3.mlp` and `h.11.mlp` are `h.mlp`."""
    return _COUNTED.sub("", site)


def family_of(graph: Graph) -> str:
    """Compute a hash that programs of other sizes and other depth share.

    It is of the patterns of products and reductions, and of all kinds of operators: constants, and what is computed
    from them alone, depend on how a program was exported.
    """
    members = {block.operator for block in graph.blocks if block.operator != "source"}
    members |= {
        f"{site_pattern(block.site)} {block.operator}"
        for block in graph.blocks
        if class_of_block(graph, block) in HEAVY
    }
    return hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()
