"""The page `docs/generated/devices.md`; `python -m tests.docs.devices` writes it from the catalog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tapestry.hardware import Device, Mesh, device_names, load_device, load_mesh, mesh_names
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


PAGES: dict[Path, Callable[[], str]] = {FOLDER / "devices.md": devices_page}

if __name__ == "__main__":
    write(PAGES)
