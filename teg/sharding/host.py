"""The memory of the host as a physical layout: what a device stores there takes no memory of its own.

State may begin and end on the host, and a waypoint may lie there: it is made by a copy to the host, and each reader has
a copy from there. Nothing else is computed on, written to or read from the host: the convention "host" of
`docs/sharding.md`. Imported by whatever turns placements into sizes and copies.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapestry.teg.graph import Block, Definition, Graph
from tapestry.teg.operators.waypoints import HOST_MEMORY

# The layout of what is stored there is named like the memory.
HOST = HOST_MEMORY
# Roles of sources that may begin there.
HOST_ROLES = ("parameter", "optimizer_state")


def is_on_host(block: Block) -> bool:
    """Return whether a block is a waypoint on the host."""
    return is_waypoint_on_host(block.definition)


def is_waypoint_on_host(definition: Definition) -> bool:
    """Return whether blocks of a definition are waypoints on the host."""
    return definition.operator == "waypoint" and definition.get("memory") == HOST


def may_begin_on_host(graph: Graph, block: Block) -> bool:
    """Return whether a block is a source that may begin on the host: state with which the next step begins."""
    is_state = block.operator == "source" and block.definition["role"] in HOST_ROLES
    return is_state and block.outputs[0] in graph.carried


def misplaced(
    graph: Graph, block: Block, layouts: tuple[str, ...], read_layouts: tuple[str, ...]
) -> Iterator[str]:
    """Yield what is wrong with the places of a block's tensors on the host, as sentences."""
    if is_on_host(block):
        if layouts != (HOST,) or read_layouts != (HOST,):
            yield f"block {block.site!r} is a waypoint on the host, but does not lie there"
        return
    if HOST in layouts and not may_begin_on_host(graph, block):
        yield f"block {block.site!r} leaves a tensor on the host"
    if HOST in read_layouts and not block.definition.carries:
        yield f"block {block.site!r} reads a tensor on the host"
