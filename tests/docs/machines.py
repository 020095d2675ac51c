"""The tables of `docs/machines.md`, generated from the catalog; `python -m tests.docs.machines` rewrites them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from tapestry.hardware import Device, Mesh, device_names, load_device, load_mesh, mesh_names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "machines.md"


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
    lines = ["| mesh | devices | axes, slowest first |", "| --- | --- | --- |"]
    return "\n".join([*lines, *(_mesh(load_mesh(name)) for name in mesh_names())])


def _mesh(mesh: Mesh) -> str:
    axes = ", ".join(
        f"{a.name} {a.size} ({a.topology}, {a.bandwidth_bytes_per_s / 1e9:g} GB/s)" for a in mesh.axes
    )
    return f"| `{mesh.name}` | {mesh.device_count} x `{mesh.device.name}` | {axes} |"


def with_tables(text: str) -> str:
    """Return the page with its tables regenerated from the catalog."""
    for name, table in (("devices", device_table()), ("meshes", mesh_table())):
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end of {name} -->)", re.DOTALL)
        text = marked.sub(rf"\1\n{table}\n\n\2", text)
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
    sys.stdout.write(f"{PAGE}: written\n")
