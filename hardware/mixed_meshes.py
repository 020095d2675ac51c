"""Meshes of nodes that differ: from their names, as `2x-dgx-h100+dgx-a100`, and from mesh files that list `nodes`.

Imported by the catalog, which has the nodes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from tapestry.hardware.axis_files import read_axis
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.schema import Schema
from tapestry.hardware.tables import CatalogError, Table

NODE = "node"  # the axis between nodes
BY_COUNT = re.compile(r"([+-]?\d{1,12})x-(.+)")  # the name of so many nodes of a mesh
JOINED = "+"
NODES_EXPECTED = "a list of meshes of one shape, each a name such as `dgx-h100` or `2x-dgx-h100`, or a table"


def node_meshes(name: str) -> tuple[str, ...]:
    """Return the names of the meshes that a name asks for: one, but for `2x-dgx-h100+dgx-a100`."""
    parts = (BY_COUNT.fullmatch(part) or part for part in name.split(JOINED))
    return tuple(part if isinstance(part, str) else part[2] for part in parts)


def joined_mesh(name: str, parts: Sequence[Mesh]) -> Mesh:
    """Return the mesh of the nodes of all `parts`, one after the other, joined by the slowest of their networks.

    Raises:
        CatalogError: one states no network, or their shapes differ.
    """
    nodes = [node for part in parts for node in _nodes_of(part)]
    networks = [node.network for node in nodes if node.network is not None]
    if len(networks) < len(nodes):
        lacking = next(node.name for node in nodes if node.network is None)
        raise CatalogError(
            f"{name}: mesh {lacking!r} states no network between nodes; write one into a mesh file"
        )
    return _of_nodes(name, nodes, slowest_network(networks))


def _nodes_of(mesh: Mesh) -> tuple[Mesh, ...]:
    """Return the nodes of a mesh: itself, or, of one by count, the mesh so many times."""
    by_count = BY_COUNT.fullmatch(mesh.name)
    if by_count is None or mesh.network is not None or mesh.axes[0].name != NODE:
        return (mesh,)
    node = replace(mesh, name=by_count[2], axes=mesh.axes[1:], network=replace(mesh.axes[0], size=1))
    return (node,) * mesh.axes[0].size


def slowest_network(networks: Sequence[MeshAxis]) -> MeshAxis:
    """Return the network of the least bandwidth."""
    return min(networks, key=lambda axis: axis.bandwidth_bytes_per_s)


def _of_nodes(name: str, nodes: Sequence[Mesh], network: MeshAxis) -> Mesh:
    try:
        return Mesh.of_nodes(name, nodes, network)
    except ValueError as error:
        raise CatalogError(f"{name}: {error}") from error


def read_mixed_mesh(table: Table, load: Callable[[str], Mesh], read: Callable[[Table], Mesh]) -> Mesh | None:
    """Read a mesh of `nodes`: names, which `load` finds, or tables, which `read` reads; None if a fault was noted.

    Without a `network` it is the slowest of their own.
    """
    name, before = table.text("name"), len(table.faults.found)
    nodes: list[Mesh] = []
    for k, item in enumerate(table.items("nodes")):
        place = f"nodes[{k}]"
        if not isinstance(item, str):
            nodes.append(read(Table(item, table.at(place), table.faults)))
            continue
        try:
            nodes += _nodes_of(load(item))
        except CatalogError as error:
            for fault in error.faults:
                table.fault(place, fault)
    network, known = None, [node.network for node in nodes if node.network is not None]
    if table.has("network", "a table of the links between nodes"):
        network = read_axis(table.table("network"), NODE)
    elif nodes and len(known) == len(nodes):
        network = slowest_network(known)
    elif nodes:
        lacking = next(node.name for node in nodes if node.network is None)
        table.fault("network", f"missing; node {lacking!r} has none of its own")
    systems = table.texts("systems")
    table.finish()
    if len(table.faults.found) > before or network is None:
        return None
    try:
        return replace(Mesh.of_nodes(name, nodes, network), systems=systems)
    except ValueError as error:
        table.fault("nodes", str(error))
        return None


def with_nodes(schema: Schema) -> Schema:
    """Return the schema of mesh files with those that list nodes."""
    items = {"anyOf": [{"type": "string"}, {"type": "object"}]}
    nodes = {
        "type": "array",
        "minItems": 1,
        "items": items,
        "description": "meshes of one shape, joined by the network: names or tables, in the place of device and axes",
    }
    required = [name for name in schema["required"] if name not in ("device", "axes")]
    forms = [{"required": ["device", "axes"]}, {"required": ["nodes"]}]
    return schema | {
        "properties": schema["properties"] | {"nodes": nodes},
        "required": required,
        "oneOf": forms,
    }
