"""Families of programs: those that differ in sizes or the number of equal layers only, by the names of blocks."""

from __future__ import annotations

import hashlib
import re

from tapestry.teg.graph import Graph

# What distinguishes one layer from the next in a name, and a block that a rewrite has made: numbers, and hashes.
_COUNTED = re.compile(r"[._]?(?:(?<=\.)[0-9a-f]{8}\b|[0-9]+)")


def site_pattern(site: str) -> str:
    """Return the name of a site without what differs from layer to layer: `h.3.mlp` and `h.11.mlp` are `h.mlp`."""
    return _COUNTED.sub("", site)


def family_of(graph: Graph) -> str:
    """Compute a hash that programs of other sizes and other depth share: that of patterns of sites and operators."""
    members = {f"{site_pattern(block.site)} {block.operator}" for block in graph.blocks}
    return hashlib.sha256("\n".join(sorted(members)).encode()).hexdigest()
