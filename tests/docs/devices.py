"""The page `docs/generated/devices.md`; `python -m tests.docs.devices` writes it from the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tapestry.hardware import (
    Device,
    Mesh,
    device_names,
    device_schema,
    load_device,
    load_mesh,
    mesh_names,
    mesh_schema,
)
from tests.docs.generated import FOLDER, page, write


def device_table() -> str:
    """Build the table of devices with their capacities and peak rates."""
    lines = [
        "| device | of | memory | bandwidth | cores | peak Tflop/s | layouts |",
        "| --- | --- | --: | --: | --: | --- | --- |",
    ]
    return "\n".join([*lines, *(_device(load_device(name)) for name in device_names())])


def _device(device: Device) -> str:
    names = ", ".join(f"`{name}`" for name in (device.name, *device.aliases))
    peaks = ", ".join(f"{dtype} {rate / 1e12:.4g}" for dtype, rate in device.peak_flops_per_s.items())
    memory, bandwidth = f"{device.memory_bytes / 1e9:.4g} GB", f"{device.memory_bytes_per_s / 1e9:.4g} GB/s"
    layouts = ", ".join(f"`{layout}`" for layout in device.layouts)
    cells = (names, device.vendor, memory, bandwidth, str(device.cores), peaks, layouts)
    return f"| {' | '.join(cells)} |"


def mesh_table() -> str:
    """Build the table of meshes with their devices and links."""
    lines = ["| mesh | devices | axes, slowest first | network between nodes |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(_mesh(load_mesh(name)) for name in mesh_names())])


def _mesh(mesh: Mesh) -> str:
    axes = ", ".join(
        f"{a.name} {a.size} ({a.topology}, {a.bandwidth_bytes_per_s / 1e9:g} GB/s)" for a in mesh.axes
    )
    network = mesh.network
    between = f"{network.topology}, {network.bandwidth_bytes_per_s / 1e9:g} GB/s" if network else ""
    return f"| `{mesh.name}` | {mesh.device_count} x `{mesh.device.name}` | {axes} | {between} |"


def devices_page() -> str:
    """Build the page of the catalog's devices and meshes."""
    return page(
        "Catalog of devices and meshes",
        "tests.docs.devices",
        "[Devices and meshes](../meshes.md) explains the columns. Peak rates are those of matrix units on dense "
        "operands.",
        "## Devices",
        device_table(),
        "## Meshes",
        mesh_table(),
    )


def _rows(schema: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Yield a line of a table for each key that a file may have, those of tables in it after it."""
    for key, kept in schema["properties"].items():
        name, needed = f"{place}{key}", "" if key in schema.get("required", ()) else "optional"
        member = kept.get("items", kept)
        if not isinstance(member.get("additionalProperties"), dict):
            named, what = name, member
        else:
            named, what = f"{name}.NAME", member["additionalProperties"]
        meaning = kept.get("description") or what.get("description", "")
        yield f"| `{named}` | {_kind(what, kept)} | {needed} | {meaning} |"
        if what.get("properties"):
            yield from _rows(what, f"{named}{'[]' if 'items' in kept else ''}.")


def _kind(what: Mapping[str, Any], kept: Mapping[str, Any]) -> str:
    """Word the kind of a value and its range."""
    if "enum" in what:
        return "one of " + ", ".join(f"`{value}`" for value in what["enum"])
    if "anyOf" in what:
        return "text or table"
    kinds = {
        "number": "number",
        "integer": "whole number",
        "string": "text",
        "object": "table",
        "array": "list",
    }
    kind = kinds.get(what.get("type", ""), "value")
    if kept.get("type") == "array" and "items" in kept:
        kind = f"list of {kind}s"
    low, high = what.get("minimum", what.get("exclusiveMinimum")), what.get("maximum")
    if low is None:
        return kind
    above = "above " if "exclusiveMinimum" in what else "from "
    return f"{kind}, {above}{low:g} to {high:g}" if high is not None else f"{kind}, at least {low:g}"


def fields_page() -> str:
    """Build the page of all keys of mesh and device files."""
    head = ["| key | value | | meaning |", "| --- | --- | --- | --- |"]
    return page(
        "Keys of device and mesh files",
        "tests.docs.devices",
        "`[]` stands for each table of a list, `NAME` for a name that the file chooses. `tapestry mesh schema` prints "
        "the same as a JSON Schema, with `--device` that of device files. [Devices and meshes](../meshes.md) explains "
        "the figures.",
        "## Meshes",
        "\n".join([*head, *_rows(mesh_schema())]),
        "## Devices",
        "\n".join([*head, *_rows(device_schema())]),
    )


PAGES: dict[Path, Callable[[], str]] = {
    FOLDER / "devices.md": devices_page,
    FOLDER / "mesh-files.md": fields_page,
}

if __name__ == "__main__":
    write(PAGES)
