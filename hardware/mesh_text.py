"""Mesh files as text: TOML with a comment beside every figure that gives its meaning, unit and range."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from itertools import groupby
from typing import Any

from tapestry.hardware.device import Device
from tapestry.hardware.kernel_tables import kernel_lines
from tapestry.hardware.kernels import EFFICIENCIES
from tapestry.hardware.mesh import TOPOLOGIES, Mesh, MeshAxis
from tapestry.hardware.ranges import RANGES

HEAD = """\
# A mesh: equal devices on named axes, the slowest axis first. `tapestry mesh check FILE` reports every fault in it.
"""
NODES_HEAD = """\
# A mesh of nodes of one shape, whose devices differ. `tapestry mesh check FILE` reports every fault in it.
"""
DEVICE_HEAD = (
    "# A name of the catalog (`tapestry devices`), a path ending in .toml, or a table [device] of its own.\n"
)
COLLECTIVES_HEAD = (
    "# Measurements, which correct what follows from the figures; leave them out for links of other rates.\n"
)
SOURCES_HEAD = "# Where the figures come from, by key; replace what you replaced.\n"


def mesh_text(mesh: Mesh, with_device: bool = False) -> str:
    """Write a mesh as the text of a TOML file that `load_mesh` reads back as an equal mesh.

    `with_device` writes the device's own figures out, to be changed; else the file names the device of the catalog.
    """
    if not mesh.nodes:
        return f"{HEAD}\n" + "\n\n".join(_mesh(mesh, with_device)) + "\n"
    links = "\n".join(_network(mesh.axes[0], "Between the nodes: the figures of one device's share."))
    parts = [f"name = {_value(mesh.name)}\n{_systems(mesh)}", links]
    for node, run in groupby(mesh.nodes):
        head = f"[[nodes]]\ncount = {len(list(run))}\n"
        parts += [head + "\n\n".join(_mesh(node, with_device, "nodes."))]
    return f"{NODES_HEAD}\n" + "\n\n".join(parts) + "\n"


def _mesh(mesh: Mesh, with_device: bool, parent: str = "") -> Iterator[str]:
    """Yield the parts of a mesh of equal devices, whose tables are in a table `parent`."""
    head = f"name = {_value(mesh.name)}\n"
    if not with_device:
        head += f"{DEVICE_HEAD if not parent else ''}device = {_value(mesh.device.name)}\n"
    yield head + _systems(mesh)
    for axis in mesh.axes:
        yield "\n".join(_axis(axis, f"{parent}axes"))
    if mesh.network is not None:
        about = "Between nodes, for meshes by count such as `2x-NAME`: the figures of one device's share."
        yield "\n".join(_network(mesh.network, about))
    if with_device:
        yield "\n".join(_device(mesh.device, f"{parent}device"))


def _systems(mesh: Mesh) -> str:
    if not mesh.systems:
        return ""
    return f"systems = {_value(mesh.systems)}  # names of the machine or its network in reports\n"


def _axis(axis: MeshAxis, name: str) -> Iterator[str]:
    yield f"[[{name}]]"
    yield from _lines(axis)
    yield from _table(f"{name}.sources", axis.sources, SOURCES_HEAD)
    yield from _collectives(name, axis)


def _network(network: MeshAxis, about: str) -> Iterator[str]:
    yield f"# {about}"
    yield "[network]"
    yield from (line for line in _lines(network) if not line.startswith(("name =", "size =")))
    yield from _table("network.sources", network.sources, SOURCES_HEAD)
    yield from _collectives("network", network)


def _collectives(parent: str, axis: MeshAxis) -> Iterator[str]:
    for k, table in enumerate(axis.collectives):
        yield f"\n{COLLECTIVES_HEAD if k == 0 else ''}[[{parent}.collectives]]"
        yield from _lines(table)


def _device(device: Device, name: str) -> Iterator[str]:
    yield f"[{name}]"
    yield from _lines(device, without=EFFICIENCIES if device.kernels else ())
    for key, figures in device.kernels.items():
        yield f"\n[{name}.kernels.{_key(key)}]"
        yield from kernel_lines(figures)
    for figure in ("peak_flops_per_s", "joules_per_flop", "compute_dtype_default"):
        known = RANGES.get(figure)
        note = f"# {known.about}, {known.unit}: {known.expected}\n" if known else ""
        yield from _table(f"{name}.{figure}", getattr(device, figure), note)
    for tile in device.tiles:
        yield f"\n[[{name}.tiles]]"
        yield from _lines(tile)
    yield from _table(f"{name}.sources", device.sources, SOURCES_HEAD)


def _lines(record: Any, without: Sequence[str] = ()) -> Iterator[str]:
    """Yield one line per field that is a figure, a text or a list of texts; an unknown one as a comment."""
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in without or value == "":
            continue
        known = RANGES.get(field.name)
        note = f"  # {known.about}; {known.expected}" if known else ""
        if field.name == "size":
            note = "  # number of devices along the axis"
        elif field.name == "topology":
            note = f"  # one of {', '.join(TOPOLOGIES)}"
        if field.name in ("part_of", "inner"):
            continue
        if value is None:
            yield f"# {field.name} = ...{note}"
        elif isinstance(value, (str, int, float)) or (
            isinstance(value, tuple) and value and all(isinstance(part, (str, int, float)) for part in value)
        ):
            yield f"{field.name} = {_value(value)}{note}"


def _table(name: str, content: Mapping[str, Any] | None, head: str) -> Iterator[str]:
    if content:
        yield f"\n{head}[{name}]"
        yield from (f"{_key(key)} = {_value(value)}" for key, value in content.items())


def _key(name: str) -> str:
    return name if name.replace("_", "").replace("-", "").isalnum() and name.isascii() else _value(name)


def _value(value: Any) -> str:
    """Write a TOML value; its strings, numbers and lists are written as those of JSON are, large rates as `4.5e11`."""
    if isinstance(value, float) and value >= 1e6:
        digits, _, power = f"{value:.15e}".partition("e+")
        text = f"{digits.rstrip('0').rstrip('.')}e{int(power)}"
        return text if float(text) == value else repr(value)
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
