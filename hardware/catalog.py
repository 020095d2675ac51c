"""Devices and meshes by name: the catalog that comes with Tapestry, mesh files, and users' own files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from math import prod
from os import PathLike, fspath
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from tapestry.hardware.axis_files import read_axis
from tapestry.hardware.device import Device
from tapestry.hardware.device_files import device_from_dict, device_schema, read_device, shipped
from tapestry.hardware.mesh import Mesh, MeshAxis
from tapestry.hardware.mixed_meshes import (
    BY_COUNT,
    JOINED,
    NODE,
    joined_mesh,
    node_meshes,
    read_mixed_mesh,
    with_nodes,
)
from tapestry.hardware.relations import unordered_axes
from tapestry.hardware.schema import Schema, recorded
from tapestry.hardware.tables import CUTOFF, MISSING, CatalogError, Faults, Table, parsed
from tapestry.teg.arguments import a_value_of, check_arguments
from tapestry.teg.faults import near_hint, no_such, value_text
from tapestry.teg.plugins import Loaded, PlugInError, PlugInGroup, load, once, require_name

Member = TypeVar("Member", Device, Mesh)
MESH_NAME = a_value_of((str, PathLike), "a name such as 'dgx-h100' or the path of a TOML file")
_reading: ContextVar[tuple[Path, ...]] = ContextVar(
    "reading", default=()
)  # the files being read, of which each but the first is named by the one before
LONGEST_MESH = 1_000_000  # devices; beyond it a file is a typing error rather than a machine


def mesh_from_dict(content: object, where: str = "mesh", plausible: bool = True) -> Mesh:
    """Build the mesh described by a table: `name`, `device` (a catalog name or a whole device table) and `axes`.

    In their place may be `nodes`, which are meshes of one shape (names or tables). It may state the `network` between
    several such meshes (an axis without name and size), and `systems`. `plausible` refuses figures that no machine has
    (`hardware.ranges`).

    Raises:
        CatalogError: keys are missing, unknown, of the wrong kind or out of range, or the device is not in the
            catalog; it lists all of them.
    """
    faults = Faults(plausible)
    mesh = _mesh_or_nodes(Table(content, where, faults))
    faults.finish()
    return mesh


def _mesh_or_nodes(table: Table) -> Mesh:
    """Read a mesh of equal devices, or one of nodes."""
    if "nodes" not in table.content:
        return _mesh(table)
    mixed = read_mixed_mesh(table, load_mesh, _mesh, LONGEST_MESH)
    if mixed is None:
        return _mesh(Table(MISSING, table.where, Faults()))
    if table.faults.plausible:
        _check_links(table, mixed.axes[1:], mixed.axes[0])
    return mixed


def _mesh(table: Table) -> Mesh:
    """Read a mesh; it may hold placeholders where the table's `faults` has any."""
    name = table.text("name")
    device = _mesh_device(table)
    axes = tuple(read_axis(axis) for axis in table.tables("axes"))
    network = (
        read_axis(table.table("network"), NODE)
        if table.has("network", "a table of the links between nodes")
        else None
    )
    systems = table.texts("systems")
    stated = table.optional_whole("device_count")
    names = [axis.name for axis in (*axes, *((network,) if network else ())) if axis.name]
    if len(set(names)) < len(names):
        table.fault("axes", f"expected different names, not {', '.join(names)}")
    count = prod(axis.size for axis in axes)
    if count > LONGEST_MESH:
        table.fault(
            "axes", f"expected sizes of at most {LONGEST_MESH} devices in all, not {value_text(count)}"
        )
    if stated is not None and stated != count and table.is_sound("axes", "device_count"):
        sizes = " x ".join(str(axis.size) for axis in axes)
        table.fault("device_count", f"expected the product of the axes, {sizes} = {count}, not {stated}")
    if table.faults.plausible and table.is_sound("axes", "network"):
        _check_links(table, axes, network)
    table.finish()
    return Mesh(name, device, axes, network, systems)


def _check_links(table: Table, axes: Sequence[MeshAxis], network: MeshAxis | None) -> None:
    """Report slow axes with faster links than those inside them, and groups of more devices than there are inside."""
    joined = axes if network is None else (replace(network, size=2), *axes)
    for outer, inner in unordered_axes(joined):
        place = "network" if outer.name == NODE and network is not None else f"axes[{axes.index(outer)}]"
        links = outer.device_rate() / outer.bandwidth_bytes_per_s
        table.fault(
            f"{place}: bandwidth_bytes_per_s",
            f"expected at most {inner.device_rate() / links:g}, since axes stand slowest first and a device receives "
            f"{inner.device_rate():g} bytes/s along {inner.name!r}, not {outer.bandwidth_bytes_per_s:g}",
        )
    for k, axis in enumerate(joined, start=len(axes) - len(joined)):
        most = prod(each.size for each in axes[k + 1 :])
        for measured in axis.collectives:
            if measured.inside > most:
                place = "network" if k < 0 else f"axes[{k}]"
                table.fault(
                    f"{place}: collectives",
                    f"expected inside of at most {most}, the devices of faster axes, "
                    f"not {value_text(measured.inside)}",
                )


def _mesh_device(table: Table) -> Device:
    """Read the device of a mesh, from the catalog or written out; a placeholder if it is neither, which is noted."""
    stated = table.get("device", "a device's name or table")
    if not isinstance(stated, str):
        return read_device(Table(stated, table.at("device"), table.faults))
    try:
        return load_device(stated)
    except CatalogError as error:
        for fault in error.faults:
            table.fault("device", fault)
        return read_device(Table(MISSING, table.where, Faults()))


def mesh_schema() -> Schema:
    """Return the JSON Schema of mesh files, whose device is a name or a table."""
    schema, device = recorded("A mesh", _mesh), device_schema()
    tabled = {key: value for key, value in device.items() if key not in ("$schema", "title")}
    schema["properties"]["device"] |= {"anyOf": [{"type": "string"}, tabled]}
    return with_nodes(schema)


def _in_file(path: str | PathLike[str]) -> Path:
    """Return where a file lies: relative to the file that names it, or to the working directory."""
    reading = _reading.get()
    return reading[-1].parent / path if reading else Path(path)


def _own_file(path: str) -> object:
    try:
        text = _in_file(path).read_text(encoding="utf-8")
    except OSError as error:
        raise CatalogError(f"{path}: cannot read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CatalogError(f"{path}: cannot read it: not UTF-8 text") from error
    return parsed(text, path)


@cache
def _shipped_devices() -> dict[str, Device]:
    return {
        name: device_from_dict(content, f"devices/{name}.toml")
        for name, content in shipped("devices").items()
    }


@cache
def _shipped_meshes() -> dict[str, Mesh]:
    return {
        name: mesh_from_dict(content, f"meshes/{name}.toml") for name, content in shipped("meshes").items()
    }


def _toml_files(offered: Any) -> Sequence[Traversable]:
    """Find the TOML files in a package of a plug-in, by name."""
    if not isinstance(offered, ModuleType):
        raise PlugInError(
            f"expected a package with TOML files, not {value_text(offered)}",
            "let the entry point name a package, without a colon",
        )
    found = [entry for entry in files(offered).iterdir() if entry.name.endswith(".toml")]
    if not found:
        raise PlugInError(
            f"no TOML file lies in package {offered.__name__!r}",
            "list them under [tool.setuptools.package-data], or as your build tool has it",
        )
    return sorted(found, key=lambda entry: entry.name)


def _plugged_device(file: Traversable) -> Device:
    device = device_from_dict(parsed(file.read_text(encoding="utf-8"), file.name), file.name)
    for name in (device.name, *device.aliases):
        require_name(name)
    return device


def _plugged_mesh(file: Traversable) -> Mesh:
    mesh = mesh_from_dict(parsed(file.read_text(encoding="utf-8"), file.name), file.name)
    require_name(mesh.name)
    return mesh


DEVICE_GROUP = PlugInGroup(
    "tapestry.devices", "device", _toml_files, _plugged_device, lambda device: (device.name, *device.aliases)
)
MESH_GROUP = PlugInGroup("tapestry.meshes", "mesh", _toml_files, _plugged_mesh, lambda mesh: (mesh.name,))


@once
def device_plugins() -> Loaded[Device]:
    """Load the devices of installed plug-ins (entry point group `tapestry.devices`), and list what was left out."""
    return load(DEVICE_GROUP, _by_alias(_shipped_devices()))


@once
def mesh_plugins() -> Loaded[Mesh]:
    """Load the meshes of installed plug-ins (entry point group `tapestry.meshes`), and list what was left out."""
    return load(MESH_GROUP, _shipped_meshes())


@cache
def _devices() -> dict[str, Device]:
    return dict(sorted((_shipped_devices() | dict(device_plugins().members)).items()))


@cache
def _meshes() -> dict[str, Mesh]:
    return dict(sorted((_shipped_meshes() | dict(mesh_plugins().members)).items()))


def _is_path(name: str | PathLike[str]) -> bool:
    return not isinstance(name, str) or name.endswith(".toml") or "/" in name or "\\" in name


def _unknown(kind: str, name: str, known: tuple[str, ...], reported: str) -> CatalogError:
    hint = near_hint(name, known, cutoff=CUTOFF)
    advice = hint if hint.endswith("?") else f"{hint}; a file's path ending in .toml works too"
    return CatalogError(no_such(kind, name, known, hint=reported or advice))


def _by_alias(devices: Mapping[str, Device]) -> dict[str, Device]:
    return {alias: device for device in devices.values() for alias in (device.name, *device.aliases)}


def device_names(with_aliases: bool = False) -> tuple[str, ...]:
    """Return the names of the devices in the catalog, sorted; their aliases only if requested."""
    return tuple(_by_alias(_devices()) if with_aliases else _devices())


def mesh_names() -> tuple[str, ...]:
    """Return the names of the meshes in the catalog, sorted."""
    return tuple(_meshes())


@contextmanager
def _reads(path: str) -> Iterator[None]:
    """Have files that are named here lie relative to this one.

    Raises:
        CatalogError: the file is being read already.
    """
    reading, own = _reading.get(), _in_file(path).resolve()
    if own in reading:
        raise CatalogError(f"{path}: a node of this mesh is the mesh itself")
    token = _reading.set((*reading, own))
    try:
        yield
    finally:
        _reading.reset(token)


def _load(
    kind: str,
    name_or_path: str | PathLike[str],
    members: Callable[[], Mapping[str, Member]],
    build: Callable[[object, str], Member],
    plugins: Callable[[], Loaded[Member]],
) -> Member:
    if _is_path(name_or_path):
        path = fspath(name_or_path)
        content = _own_file(path)
        with _reads(path):
            return build(content, path)
    name, known = fspath(name_or_path), members()
    if name not in known:
        raise _unknown(kind, name, tuple(known), plugins().left_out(name))
    return known[name]


def load_device(name_or_path: str | PathLike[str]) -> Device:
    """Load the device of this name (or alias) in the catalog, or described by the TOML file at that path.

    Raises:
        CatalogError: unknown name (near ones are listed), unreadable or wrong file.
    """
    return _load("device", name_or_path, lambda: _by_alias(_devices()), device_from_dict, device_plugins)


def load_file(path: str) -> Device | Mesh:
    """Load the device or mesh that a TOML file describes, by which of the two it has more keys of.

    Raises:
        CatalogError: an unreadable or wrong file; it lists all faults.
    """
    content = _own_file(path)
    keys = content.keys() if isinstance(content, dict) else set[str]()
    of_device, of_mesh = (schema["properties"].keys() for schema in (device_schema(), mesh_schema()))
    is_device = len(keys & (of_device - of_mesh)) > len(keys & (of_mesh - of_device))
    with _reads(path):
        return device_from_dict(content, path) if is_device else mesh_from_dict(content, path)


def load_mesh(name_or_path: str | PathLike[str]) -> Mesh:
    """Load the mesh of this name in the catalog or of the TOML file at that path.

    `Nx-` before either is N nodes of it, and `+` between such names joins their nodes: `2x-dgx-h100+dgx-a100`. Paths
    in a file are relative to the file.

    Raises:
        ArgumentError: neither a name nor a path.
        CatalogError: unknown name (near ones are listed), a mesh that is no node, unreadable or wrong file.
    """
    check_arguments({"name_or_path": MESH_NAME}, {"name_or_path": name_or_path})
    name = fspath(name_or_path)
    is_known = _in_file(name).is_file() if _is_path(name_or_path) else name in _meshes()
    by_count = BY_COUNT.fullmatch(name)
    if not is_known and _is_joined(name):
        return joined_mesh(name, [load_mesh(part) for part in name.split(JOINED)], LONGEST_MESH)
    if by_count is None or is_known:
        return _load("mesh", name_or_path, _meshes, mesh_from_dict, mesh_plugins)
    return _nodes(int(by_count[1]), _load("mesh", by_count[2], _meshes, mesh_from_dict, mesh_plugins))


def _is_joined(name: str) -> bool:
    """Return whether a name joins others: a sign in the path of a file joins nothing, unless all parts are known."""
    parts = node_meshes(name)
    known = [_in_file(part).is_file() if _is_path(part) else part in _meshes() for part in parts]
    return len(parts) > 1 and (all(known) or not any(map(_is_path, parts)))


def node_names() -> tuple[str, ...]:
    """Return the names of the meshes that state a network, so that `load_mesh` takes any number of them."""
    return tuple(name for name, mesh in _meshes().items() if mesh.network is not None)


def _nodes(count: int, node: Mesh) -> Mesh:
    """Build a mesh by count."""
    if node.nodes:
        return joined_mesh(f"{count}x-{node.name}", [node] * max(min(count, LONGEST_MESH), 1), LONGEST_MESH)
    if node.network is None:
        raise CatalogError(
            f"mesh {node.name!r} states no network between nodes; those that do are {', '.join(node_names())}; "
            f"to add one: `tapestry mesh new my-node.toml --from {node.name}`, write a table [network] with topology, "
            f"bandwidth_bytes_per_s (one device's share of the node's links) and latency_s into it, and name the mesh "
            f"{count}x-my-node.toml"
        )
    most = LONGEST_MESH // node.device_count
    if not 1 <= count <= most:
        raise CatalogError(
            f"expected from 1 to {most} nodes, not {count}: 2x-{node.name} is two of {node.name!r}"
        )
    return node.by_count(count)
