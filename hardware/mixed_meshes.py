"""Meshes of nodes that differ: from their names, as `2x-dgx-h100+dgx-a100`, and from mesh files that list `nodes`.

Imported by the catalog, which has the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tapestry.hardware.axis_files import read_axis
from tapestry.hardware.mesh import Mesh, changed_nodes, slower_links
from tapestry.hardware.schema import Schema
from tapestry.hardware.tables import CatalogError, Table
from tapestry.teg.faults import value_text

NODE = "node"  # the axis between nodes
BY_COUNT = re.compile(r"([+-]?\d{1,12})x-(.+)")  # the name of so many nodes of a mesh
JOINED = "+"


def node_meshes(name: str) -> tuple[str, ...]:
    """Return the names of the meshes that a name asks for: one, but for `2x-dgx-h100+dgx-a100`."""
    parts = (BY_COUNT.fullmatch(part) or part for part in name.split(JOINED))
    return tuple(part if isinstance(part, str) else part[2] for part in parts)


def joined_mesh(name: str, parts: Sequence[Mesh], most: int) -> Mesh:
    """Return the mesh of the nodes of all `parts`, one after the other, joined by the slowest of their networks.

    Raises:
        CatalogError: one states no network, their shapes differ, or there are more devices than `most`.
    """
    count = sum(part.device_count for part in parts)
    if count > most:
        raise CatalogError(f"{name}: expected at most {most} devices in all, not {count}")
    nodes = [node for part in parts for node in _nodes_of(part)]
    networks = [node.network for node in nodes if node.network is not None]
    if len(networks) < len(nodes):
        lacking = next(node.name for node in nodes if node.network is None)
        raise CatalogError(
            f"{name}: mesh {lacking!r} states no network between nodes; list the nodes in a mesh file that does"
        )
    try:
        return Mesh.of_nodes(name, nodes, slower_links(networks))
    except ValueError as error:
        raise CatalogError(f"{name}: {error}") from error


def _nodes_of(mesh: Mesh) -> tuple[Mesh, ...]:
    """Return the nodes of a mesh: its own ones, those of one by count, or itself."""
    if mesh.nodes:
        network = replace(mesh.axes[0], size=1)
        return changed_nodes(mesh.nodes, lambda node: replace(node, network=network))
    by_count = BY_COUNT.fullmatch(mesh.name)
    if by_count is None or mesh.network is not None or mesh.axes[0].name != NODE:
        return (mesh,)
    node = replace(mesh, name=by_count[2], axes=mesh.axes[1:], network=replace(mesh.axes[0], size=1))
    return (node,) * mesh.axes[0].size


def read_mixed_mesh(
    table: Table, load: Callable[[str], Mesh], read: Callable[[Table], Mesh], most: int
) -> Mesh | None:
    """Read a mesh of `nodes`: names, which `load` finds, or tables, which `read` reads; None if a fault was noted.

    A table may have a `count` of equal nodes. Without a `network` it is the slowest of their own. There are at most
    `most` devices.
    """
    name, before = table.text("name"), len(table.faults.found)
    nodes: list[Mesh] = []
    for k, item in enumerate(table.items("nodes")):
        nodes += _nodes_at(table, f"nodes[{k}]", item, load, read, most)
    network, known = None, [node.network for node in nodes if node.network is not None]
    if table.has("network", "a table of the links between nodes"):
        network = read_axis(table.table("network"), NODE)
    elif nodes and len(known) == len(nodes):
        network = slower_links(known)
    elif nodes:
        lacking = next(node.name for node in nodes if node.network is None)
        table.fault("network", f"missing; node {lacking!r} has none of its own")
    systems = table.texts("systems")
    table.finish()
    if len(table.faults.found) > before or network is None:
        return None
    count = len(nodes) * nodes[0].device_count
    if count > most:
        table.fault("nodes", f"expected at most {most} devices in all, not {count}")
        return None
    try:
        return replace(Mesh.of_nodes(name, nodes, network), systems=systems)
    except ValueError as error:
        table.fault("nodes", str(error))
        return None


def _nodes_at(
    table: Table,
    place: str,
    item: object,
    load: Callable[[str], Mesh],
    read: Callable[[Table], Mesh],
    most: int,
) -> tuple[Mesh, ...]:
    """Return the nodes that one item of the list names, or describes; none if a fault was noted."""
    if isinstance(item, str):
        try:
            return _nodes_of(load(item))
        except CatalogError as error:
            for fault in error.faults:
                table.fault(place, fault)
            return ()
    if not isinstance(item, Mapping):
        table.fault(place, f"expected the name of a mesh, or a table, not {value_text(item)}")
        return ()
    node = Table(item, table.at(place), table.faults)
    count = node.optional_whole("count") or 1
    if count > most:
        node.fault("count", f"expected at most {most}, not {count}")
    return (read(node),) * min(count, most)


def with_nodes(schema: Schema) -> Schema:
    """Return the schema of mesh files with those that list nodes."""
    items = {"anyOf": [{"type": "string"}, {"type": "object"}]}
    about = (
        "meshes of one shape, joined by the network: names, or tables with a `count`; then no device and axes"
    )
    nodes = {
        "type": "array",
        "minItems": 1,
        "items": items,
        "description": about,
    }
    required = [name for name in schema["required"] if name not in ("device", "axes")]
    forms = [{"required": ["device", "axes"]}, {"required": ["nodes"]}]
    return schema | {
        "properties": schema["properties"] | {"nodes": nodes},
        "required": required,
        "oneOf": forms,
    }
